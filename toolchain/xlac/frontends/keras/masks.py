"""Masks: which steps of a tensor count, as layers hand them on in Keras beside their results.

A layer of one tensor argument is given the mask of that argument, unless it is called with another;
a layer that knows masks says which its results have, all others drop it. `MultiHeadAttention` takes
away the masks of the tensors that it is called with, also for layers that run after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from xlac.frontends.keras.config import LayerConfig
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.tensor.view import Reshape
from xlac_sdk.dtypes import DType

Mask = Node | None
Rule = Callable[[LayerConfig, Sequence[Node], Sequence[Mask]], Mask]

SAME_TENSOR = frozenset(
    """
    ActivityRegularization AlphaDropout Dropout GaussianDropout GaussianNoise Identity
    SpatialDropout1D SpatialDropout2D SpatialDropout3D
    """.split()
)
"""Layers whose result is their argument itself when a model predicts."""
HANDED_ON = SAME_TENSOR | frozenset(
    """
    Activation BatchNormalization Dense ELU GroupNormalization GroupQueryAttention
    LayerNormalization LeakyReLU MultiHeadAttention Normalization PReLU ReLU Rescaling Softmax
    TimeDistributed UnitNormalization
    """.split()
)
"""Layers whose result has the mask of their first argument."""
RECURRENT = frozenset(
    "Bidirectional ConvLSTM1D ConvLSTM2D ConvLSTM3D GRU LSTM RNN SimpleRNN".split()
)
"""Layers whose first result has the mask, if it has all steps."""

GIVEN_MASKS = RECURRENT | {"AdditiveAttention", "Attention", "GlobalAveragePooling1D", "Softmax"}
"""Layers that compute something else with a mask than without."""


def joined(layer: LayerConfig, tensors: Sequence[Node], masks: Sequence[Mask]) -> Mask:
    """A step counts if it does in any of the tensors; all of them need a mask."""
    known = [mask for mask in masks if mask is not None]
    if len(known) < len(tensors):
        return None
    return both("or", known)


def concatenated(layer: LayerConfig, tensors: Sequence[Node], masks: Sequence[Mask]) -> Mask:
    """The masks one after another; a tensor without one counts whole."""
    if all(mask is None for mask in masks):
        return None
    axis = layer.config.get("axis", -1)
    if not isinstance(axis, int):
        raise ShapeError(f"axis is {axis!r}, not an integer")
    parts: list[Node] = []
    for x, mask in zip(tensors, masks, strict=True):
        if mask is None:
            parts.append(build.full(True, x.shape, DType.BOOL))
        elif mask.type.rank < x.type.rank:
            column = build.reshape(mask, (*mask.shape, 1))
            parts.append(build.broadcast_to(column, x.shape))
        else:
            parts.append(mask)
    whole = build.concat(parts, axis % parts[0].type.rank)
    return build.reduce(whole, "or", whole.type.rank - 1)


def first(layer: LayerConfig, tensors: Sequence[Node], masks: Sequence[Mask]) -> Mask:
    """The mask of the first tensor."""
    return masks[0] if masks else None


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract"), joined),
    **dict.fromkeys(("Attention", "AdditiveAttention"), first),
    "Concatenate": concatenated,
}
"""The mask of the result of a layer of several tensors."""


class Masks:
    """The masks of the tensors of a model."""

    def __init__(self) -> None:
        self._of: dict[Node, Node] = {}
        self._same: dict[Node, Node] = {}  # results that are the argument itself in Keras

    def of(self, x: Node) -> Mask:
        """The mask of a tensor."""
        return self._of.get(self._same.get(x, x))

    def set(self, x: Node, mask: Mask) -> None:
        """Gives a tensor a mask, or takes it away."""
        x = self._same.get(x, x)
        if mask is None:
            self._of.pop(x, None)
        else:
            self._of[x] = mask

    def given(
        self, args: Sequence[Any], tensors: Sequence[Node], kwargs: Mapping[str, Any]
    ) -> list[Mask]:
        """The masks that a layer is called with: those of the argument `mask`, else those of its
        tensors if they are one argument.
        """
        asked = kwargs.get("mask")
        if asked is not None:
            listed = asked if isinstance(asked, list | tuple) else [asked]
            if not all(mask is None or isinstance(mask, Node) for mask in listed):
                raise ShapeError("mask is not a tensor")
            return [None if mask is None else as_bool(mask) for mask in listed]
        if len(args) == 1 and not any(_has_tensor(value) for value in kwargs.values()):
            return [self.of(x) for x in tensors]
        return [None] * len(tensors)

    def hand_on(
        self,
        layer: LayerConfig,
        tensors: Sequence[Node],
        before: Sequence[Mask],
        results: Sequence[Node],
    ) -> tuple[Node, ...]:
        """The results of a layer, with the masks that Keras gives them; `before` are those of the
        tensors it was called with.
        """
        kind, masked = layer.kind, any(mask is not None for mask in before)
        if kind in SAME_TENSOR and len(tensors) == len(results) == 1:
            if results[0] is not tensors[0]:
                self._same[results[0]] = self._same.get(tensors[0], tensors[0])
            return tuple(results)
        # a result that is an argument gets a node of its own, so that it has not the same mask
        own = [_another(y) if y in tensors and self.of(y) is not None else y for y in results]
        mask: Mask = None
        if masked and (kind in HANDED_ON or (kind in RECURRENT and _has_all_steps(layer))):
            mask = first(layer, tensors, before)
        elif masked and kind in RULES:
            mask = RULES[kind](layer, tensors, before)
        if mask is not None:
            several = 2 if kind == "Bidirectional" and not layer.config.get("merge_mode") else 1
            for y in own[:several]:
                self.set(y, mask)
        return tuple(own)


def _has_all_steps(layer: LayerConfig) -> bool:
    """Whether the result of a recurrent layer has all steps."""
    config = layer.config
    if layer.kind == "Bidirectional":
        inner = config.get("layer")
        config = inner.get("config") or {} if isinstance(inner, dict) else {}
    return bool(config.get("return_sequences"))


def as_bool(mask: Node) -> Node:
    """A mask as bool: what is not 0 counts."""
    return mask if mask.type.dtype is DType.BOOL else build.compare(mask, "ne", 0)


def column(mask: Node, rank: int) -> Node:
    """A mask with as many axes as a tensor of a rank, those that it lacks at the end."""
    if mask.type.rank > rank:
        raise ShapeError(f"its mask {mask.type} has more axes than its tensor")
    return build.reshape(mask, (*mask.shape, *(1,) * (rank - mask.type.rank)))


def both(combine: str, masks: Sequence[Node]) -> Node:
    """Several masks by `and` or `or`."""
    return reduce(lambda one, other: build.apply1(combine, one, other), masks)


def _has_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_tensor(part) for part in value)
    return isinstance(value, Node)


def _another(x: Node) -> Node:
    """A node of its own that is x."""
    return Node.of(Reshape(x.shape), x)
