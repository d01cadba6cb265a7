"""Building blocks of attention: splitting and merging heads, scores, masks, probabilities, and the
weighted sum of values.

Tensors with split heads are (batch, heads, time, width). There may be fewer key/value heads, each
shared by a group of consecutive query heads. Scores are (batch, heads, queries, keys) in the
compute type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.tensor.dynamic import DimSize
from xlac_sdk.dtypes import DType


def undivided(x: Node, parts: str) -> str:
    """Why the last axis of x is not divided into heads: its size is unknown, or does not fit."""
    if x.type.rank and not isinstance(x.shape[-1], int):
        return f"the last axis of {x.type} is of unknown size, and {parts} divide it"
    return f"{x.type} does not divide into {parts}"


def apart(x: Node, heads: int) -> Node:
    """Splits (batch, time, heads * width) into heads; an input of rank 4 is split already."""
    if x.type.rank == 4:
        return x
    if x.type.rank != 3 or heads < 1 or not isinstance(x.shape[2], int) or x.shape[2] % heads:
        raise ShapeError(undivided(x, f"{heads} heads"))
    batch, time, width = x.shape
    return build.transpose(build.reshape(x, (batch, time, heads, width // heads)), (0, 2, 1, 3))


def joined(x: Node) -> Node:
    """Merges heads into (batch, time, heads * width)."""
    batch, heads, time, width = x.shape
    return build.reshape(build.transpose(x, (0, 2, 1, 3)), (batch, time, heads * width))


def grouped(x: Node, shared: Dim) -> Node:
    """Splits the heads axis by key/value head: (batch, heads, a, b) to (batch, shared, heads /
    shared, a, b).
    """
    batch, heads, *rest = x.shape
    if not isinstance(heads, int) or not isinstance(shared, int) or not shared or heads % shared:
        raise ShapeError(f"{heads} heads of queries do not share {shared} heads of keys")
    return build.reshape(x, (batch, shared, heads // shared, *rest))


def scores(q: Node, k: Node, scale: float | None = None) -> Node:
    """q kᵀ * scale, by default 1 / sqrt(width)."""
    batch, heads, time, width = q.shape
    if scale is None:
        if not isinstance(width, int) or not width:
            raise ShapeError(f"attention needs a known width, got {q.type}")
        scale = 1 / math.sqrt(width)
    products = build.dot(
        grouped(q, k.shape[1]), k, ((4,), (3,)), ((0, 1), (0, 1)), q.type.dtype.compute
    )
    return build.mul(build.reshape(products, (batch, heads, time, k.shape[2])), scale)


def values(weights: Node, v: Node) -> Node:
    """Probabilities times values, in the values' type."""
    batch, heads, time, _ = weights.shape
    weighted = build.dot(
        grouped(build.cast(weights, v.type.dtype), v.shape[1]),
        v,
        ((4,), (2,)),
        ((0, 1), (0, 1)),
        v.type.dtype.compute,
    )
    return build.cast(build.reshape(weighted, (batch, heads, time, v.shape[3])), v.type.dtype)


def capped(x: Node, cap: float) -> Node:
    """Soft-capped scores: cap * tanh(scores / cap); a cap of 0 leaves them unchanged."""
    return build.mul(build.apply1("tanh", build.div(x, cap)), cap) if cap else x


# ---- masks -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sight:
    """An attention mask: a bias added to the scores, and the keys that each query may attend to;
    both broadcast to the scores, None is no restriction.

    `blind` says that a query may have no key at all; its probabilities are then zeros.
    """

    bias: Node | None = None
    allowed: Node | None = None
    blind: bool = False

    def also(self, allowed: Node, blind: bool = False) -> Sight:
        """The mask restricted further: keys must also be in `allowed`."""
        both = allowed if self.allowed is None else build.apply1("and", self.allowed, allowed)
        return Sight(self.bias, both, self.blind or blind)

    def applied(self, scores: Node) -> Node:
        """Scores plus the bias, and -inf where a query may not attend."""
        if self.bias is not None:
            scores = build.add(scores, build.cast(self.bias, scores.type.dtype))
        return scores if self.allowed is None else build.select(self.allowed, scores, -np.inf)

    def probabilities(self, scores: Node) -> Node:
        """The softmax of scores that were masked by `applied`; zeros for a query without any
        key.
        """
        weights = build.apply1("softmax", scores, axis=-1)
        if not self.blind:
            return weights
        if self.bias is None:
            assert self.allowed is not None
            seen = build.reduce(self.allowed, "or", -1, True)
        else:
            best = (
                self.bias
                if self.allowed is None
                else build.select(self.allowed, self.bias, -np.inf)
            )
            seen = build.compare(build.reduce(best, "max", -1, True), "ne", -np.inf)
        return build.select(seen, weights, 0.0)


def masked(mask: Node | None, keys: Dim) -> Sight:
    """The mask from a mask tensor: bools are the allowed keys, floats are added. Keys beyond the
    tensor's last are masked out.
    """
    if mask is None:
        return Sight()
    boolean = mask.type.dtype is DType.BOOL
    missing = keys - mask.shape[-1]
    if missing != 0:
        none = [0] * mask.type.rank
        mask = build.pad(mask, False if boolean else -np.inf, none, [*none[1:], missing])
    return Sight(None, mask, True) if boolean else Sight(mask, None, True)


def distance(queries: Dim, keys: Dim, offset: Node | int) -> Node:
    """How far key j is before query i, whose position is i + offset: (queries, keys), or (batch, 1,
    queries, keys).
    """
    shape = (queries, keys)
    gap = build.sub(build.iota(shape, 0), build.iota(shape, 1))
    if isinstance(offset, int):
        return build.add(gap, build.constant(offset, DType.I64)) if offset else gap
    wide = build.cast(offset, DType.I64)
    return build.add(gap, build.reshape(wide, (-1, 1, 1, 1)) if wide.type.rank else wide)


def length(x: Node, axis: int) -> Node | int:
    """The size of an axis as a number, or as a node if it is symbolic."""
    size = x.shape[axis]
    return size if isinstance(size, int) else Node.of(DimSize(axis), x)
