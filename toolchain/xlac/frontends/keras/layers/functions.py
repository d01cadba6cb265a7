"""Functions of keras.ops that models call on tensors; they take the arguments of Keras's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from xlac.frontends.keras.call import listed
from xlac.frontends.keras.config import sequence
from xlac.frontends.keras.layers.pointwise_functions import operand
from xlac.frontends.keras.registry import operation
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType

Axes = int | list[int] | None
KINDS = {
    "float32": DType.F32, "float64": DType.F64, "float16": DType.F16, "bfloat16": DType.BF16,
    "int8": DType.I8, "int16": DType.I16, "int32": DType.I32, "int64": DType.I64,
    "uint8": DType.U8, "uint16": DType.U16, "uint32": DType.U32, "uint64": DType.U64,
    "bool": DType.BOOL,
}  # fmt: skip


def _reduction(name: str, mnemonic: str) -> None:
    def build_reduction(x: Node, axis: Axes = None, keepdims: bool = False, **rest: Any) -> Node:
        _nothing(name, rest)
        return build.apply1(mnemonic, x, axis=axis, keepdims=keepdims)

    operation(name)(build_reduction)


def _nothing(name: str, rest: dict[str, Any]) -> None:
    """Raises ShapeError for options that are set and unknown."""
    extra = [key for key, value in rest.items() if value is not None]
    if extra:
        raise ShapeError(f"the option {extra[0]} of {name} is not supported")


for _name, _mnemonic in {
    "Sum": "sum",
    "Mean": "mean",
    "Prod": "prod",
    "Max": "reduce_max",
    "Min": "reduce_min",
    "Amax": "reduce_max",
    "Amin": "reduce_min",
    "Var": "var",
    "Std": "std",
    "All": "all",
    "Any": "any",
    "Logsumexp": "logsumexp",
}.items():
    _reduction(_name, _mnemonic)


def _position(name: str, mnemonic: str) -> None:
    def build_positions(x: Node, axis: int | None = None, keepdims: bool = False) -> Node:
        positions = build.apply1(mnemonic, x, axis=axis, keepdims=keepdims)
        return build.cast(positions, DType.I32)

    operation(name)(build_positions)


_position("Argmax", "argmax")
_position("Argmin", "argmin")


@operation("Reshape")
def reshape(x: Node, newshape: Any) -> Node:
    """The same elements in another shape; -1 or null stands for what is left."""
    wanted: list[Dim] = [*listed([-1 if n is None else n for n in sequence(newshape)])]
    if wanted.count(-1) > 1 and wanted[0] == -1:
        wanted[0] = x.shape[0]
    return build.reshape(x, wanted)


@operation("Transpose")
def transpose(x: Node, axes: list[int] | None = None) -> Node:
    """Axes reordered."""
    return build.transpose(x, axes)


@operation("ExpandDims")
def expand_dims(x: Node, axis: int | list[int]) -> Node:
    """New axes of one element."""
    for one in sorted(listed(axis)):
        x = build.apply1("unsqueeze", x, axis=one)
    return x


@operation("Squeeze")
def squeeze(x: Node, axis: Axes = None) -> Node:
    """Without axes of one element."""
    return build.apply1("squeeze", x, axis=axis)


@operation("Swapaxes")
def swapaxes(x: Node, axis1: int, axis2: int) -> Node:
    """Two axes exchanged."""
    return build.apply1("swapaxes", x, a=axis1, b=axis2)


@operation("Concatenate")
def concatenate(xs: Sequence[Node], axis: int = 0) -> Node:
    """One after another along an axis."""
    return build.concat(xs, axis % xs[0].type.rank)


@operation("Stack")
def stack(xs: Sequence[Node], axis: int = 0) -> Node:
    """Side by side along a new axis."""
    return build.apply1("stack", *xs, axis=axis)


@operation("Split")
def split(x: Node, indices_or_sections: int | list[int], axis: int = 0) -> tuple[Node, ...]:
    """Parts along an axis: a number of equal ones, or between positions."""
    if isinstance(indices_or_sections, int):
        parts = build.apply("split", x, parts=indices_or_sections, axis=axis)
        return parts if isinstance(parts, tuple) else (parts,)
    axis %= x.type.rank
    ends = [0, *listed(indices_or_sections), x.shape[axis]]
    return tuple(build.cut(x, axis, a, b) for a, b in pairwise(ends))


@operation("GetItem")
def get_item(x: Node, key: Any) -> Node:
    """Indexing by numbers, slices, an ellipsis and new axes."""
    keys = tuple(key) if isinstance(key, list | tuple) else (key,)
    if not all(k is None or k is ... or isinstance(k, int | slice) for k in keys):
        raise ShapeError("only numbers, slices, ... and None index tensors")
    return build.index(x, keys)


@operation("ConvertToTensor")
def convert_to_tensor(
    x: Node, dtype: str | None = None, sparse: bool | None = None, ragged: bool | None = None
) -> Node:
    """x itself; Keras converts the masks of attention layers so."""
    if dtype is not None or sparse or ragged:
        raise ShapeError("another type is not supported", hint="keras.ops.cast is")
    return x


@operation("Cast")
def cast(x: Node, dtype: str) -> Node:
    """Another type of elements."""
    if dtype not in KINDS:
        raise ShapeError(f"the type {dtype} is not supported")
    return build.cast(x, KINDS[dtype])


def _filled(name: str, mnemonic: str) -> None:
    def build_filled(x: Node, dtype: str | None = None) -> Node:
        y = build.apply1(mnemonic, x)
        return y if dtype is None else cast(y, dtype)

    operation(name)(build_filled)


_filled("ZerosLike", "zeros_like")
_filled("OnesLike", "ones_like")


@operation("Where")
def where(condition: Node, x1: Any, x2: Any) -> Node:
    """x1 where the condition holds, else x2."""
    return build.select(condition, operand(x1), operand(x2))


@operation("Clip")
def clip(x: Node, x_min: Any, x_max: Any) -> Node:
    """x within two bounds."""
    return build.minimum(build.maximum(x, operand(x_min)), operand(x_max))


@operation("Einsum")
def einsum(*operands: Node, subscripts: str) -> Node:
    """Einstein's summation."""
    return build.apply1("einsum", *operands, equation=subscripts)


@operation("Tile")
def tile(x: Node, repeats: list[int]) -> Node:
    """x repeated along its axes."""
    return build.apply1("tile", x, repeats=repeats)


@operation("Repeat")
def repeat(x: Node, repeats: int, axis: int) -> Node:
    """Every element repeated along an axis."""
    return build.apply1("repeat", x, repeats=repeats, axis=axis)


@operation("Flip")
def flip(x: Node, axis: Axes = None) -> Node:
    """The other way round along axes."""
    return build.apply1("flip", x, axis=axis)


@operation("OneHot")
def one_hot(
    x: Node, num_classes: int, axis: int = -1, dtype: str | None = None, **rest: Any
) -> Node:
    """1 at an index, else 0."""
    _nothing("OneHot", {k: v for k, v in rest.items() if v is not False})
    return cast(build.apply1("one_hot", x, depth=num_classes, axis=axis), dtype or "float32")


@operation("Take")
def take(x: Node, indices: Any, axis: int | None = None) -> Node:
    """Parts along an axis, at indices."""
    if axis is None:
        raise ShapeError("Take without an axis is not supported")
    at = build.constant(np.asarray(indices)) if isinstance(indices, list | int) else indices
    return build.take(x, at, axis % x.type.rank)


@operation("Cumsum")
def cumsum(x: Node, axis: int | None = None, dtype: None = None) -> Node:
    """Sums up to every element along an axis."""
    if axis is None or dtype is not None:
        raise ShapeError("Cumsum without an axis, or with a type, is not supported")
    return build.apply1("cumsum", x, axis=axis)
