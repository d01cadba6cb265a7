"""Attention with masks, grouped heads and key-value caches; rotary position embedding is in
`rotary`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node, apply, pick
from xlac.ir.leading import folded
from xlac.ir.op import Sample, ShapeError, declare, family
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype, dims
from xlac.ops.nn.probability import Softmax
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


class Heads(Composite):
    """Queries, keys and values are (batch, heads, time, width), or (batch, time, heads * width)
    with `heads` given.
    """

    heads: int
    kv_heads: int
    scale: float | None

    def split(self, x: Type, operand: int, heads: int) -> tuple[Dim, Dim, Dim, Dim]:
        """The shape with heads on an axis of their own."""
        if x.rank == 4:
            return x.shape[0], x.shape[1], x.shape[2], x.shape[3]
        if x.rank != 3:
            raise ShapeError(
                f"{self.mnemonic} needs tensors of rank 3 or 4, got {x}", operand=operand
            )
        if heads < 1:
            raise ShapeError(f"{self.mnemonic} of {x} needs the number of heads", attribute="heads")
        width = x.shape[2]
        if not isinstance(width, int) or width % heads:
            why = f"a last axis of {width} does not divide into {heads} heads"
            if not isinstance(width, int):
                why = f"the last axis of {x} is of unknown size, and {heads} heads divide it"
            raise ShapeError(f"{self.mnemonic}: {why}", attribute="heads")
        return x.shape[0], heads, x.shape[1], width // heads

    def shapes(self, q: Type, k: Type, v: Type) -> tuple[tuple[Dim, Dim, Dim, Dim], ...]:
        """The shapes of q, k and v as (batch, heads, time, width). Raises ShapeError."""
        for number, x in enumerate((q, k, v)):
            check_dtype(self.mnemonic, x, FLOATS, number)
        check_one_dtype(self.mnemonic, (q, k, v))
        if not q.rank == k.rank == v.rank:
            raise ShapeError(
                f"{self.mnemonic} needs queries, keys and values of one rank, got {q}, {k} and {v}",
                operand=1,
            )
        kv = self.kv_heads or self.heads
        shapes = self.split(q, 0, self.heads), self.split(k, 1, kv), self.split(v, 2, kv)
        (batch, heads, _, width), (kb, kh, kt, kw), (vb, vh, vt, _) = shapes
        if (kb, vb) != (batch, batch) or (kh, kt) != (vh, vt):
            raise ShapeError(
                f"{self.mnemonic} needs keys and values alike and of the queries' batch, "
                f"got {q}, {k} and {v}",
                operand=1,
            )
        if not isinstance(width, int) or width == 0:
            raise ShapeError(f"{self.mnemonic} needs a known width, got {q}", operand=0)
        if kw != width:
            raise ShapeError(
                f"{self.mnemonic}: queries {q} have a width of {width}, keys {k} one of {kw}",
                operand=1,
            )
        if heads != kh and not (
            isinstance(heads, int) and isinstance(kh, int) and kh and heads % kh == 0
        ):
            raise ShapeError(
                f"{self.mnemonic}: {heads} query heads do not share {kh} key heads", operand=1
            )
        return shapes

    def apart(self, x: Node, heads: int) -> Node:
        """The tensor as (batch, heads, time, width)."""
        if x.type.rank == 4:
            return x
        batch, count, time, width = self.split(x.type, 0, heads)
        return build.transpose(build.reshape(x, (batch, time, count, width)), (0, 2, 1, 3))

    def joined(self, x: Node, rank: int) -> Node:
        """A result (batch, heads, time, width) in the operands' layout of this rank."""
        if rank == 4:
            return x
        batch, heads, time, width = x.shape
        return build.reshape(build.transpose(x, (0, 2, 1, 3)), (batch, time, heads * width))

    def scores(
        self, q: Node, k: Node, masks: Sequence[Node], hidden: float | None = None
    ) -> tuple[Node, list[Node]]:
        """q k' scale + masks, for tensors with separate heads, in the compute type, as (batch, key
        heads, query heads per key head, queries, keys), so that keys are not repeated; and the
        conjunction of bool masks, in that shape, if there are any.

        `hidden` is the score of masked keys: the lowest finite number by default.
        """
        dtype = q.type.dtype
        batch, heads, time, width = q.shape
        shared = k.shape[1]
        group = (
            heads // shared if isinstance(heads, int) and isinstance(shared, int) and shared else 1
        )
        q5 = build.reshape(q, (batch, shared, group, time, width))
        scores = build.dot(q5, k, ((4,), (3,)), ((0, 1), (0, 1)), dtype.compute)
        scores = build.mul(scores, self.factor(q))
        seen = []
        for mask in masks:
            if len(mask.shape) > 2 and mask.shape[-3] == heads and group > 1:
                mask = build.reshape(mask, (*mask.shape[:-3], shared, group, *mask.shape[-2:]))
            elif len(mask.shape) > 2:
                mask = build.reshape(mask, (*mask.shape[:-2], 1, *mask.shape[-2:]))
            if mask.type.dtype is DType.BOOL:
                lowest = float(np.finfo(dtype.compute.numpy).min) if hidden is None else hidden
                seen.append(build.broadcast_to(mask, scores.shape))
                scores = build.select(seen[-1], scores, lowest)
            else:
                scores = build.add(scores, build.compute(mask))
        return scores, seen

    def factor(self, q: Node) -> float:
        """The scale of scores."""
        width = q.shape[3]
        assert isinstance(width, int)
        return 1 / math.sqrt(width) if self.scale is None else self.scale

    def attend(
        self, q: Node, k: Node, v: Node, masks: Sequence[Node], hidden: float | None = None
    ) -> Node:
        """softmax(scores) v, for tensors with separate heads, in the compute type."""
        scores, _ = self.scores(q, k, masks, hidden)
        return self.weighted(Softmax(-1).expand(scores), v, q)

    def weighted(self, weights: Node, v: Node, q: Node) -> Node:
        """Values weighted by weights of five axes in the compute type, as the queries' type and
        heads.
        """
        dtype = q.type.dtype
        sums = build.dot(
            build.cast(weights, dtype), v, ((4,), (2,)), ((0, 1), (0, 1)), dtype.compute
        )
        return build.cast(build.reshape(sums, (*q.shape[:3], v.shape[3])), dtype)

    def attended(self, q: Node, k: Node, v: Node, masks: Sequence[Node]) -> Node:
        """`attend` as an operation, which some targets have a kernel for, where there is at most
        one mask.
        """
        if len(masks) > 1:
            return self.attend(q, k, v, masks)
        return Node.of(Attention(scale=self.scale), q, k, v, *masks)

    def check_mask(self, mask: Type, dtype: DType, scores: tuple[Dim, ...], operand: int) -> None:
        """Raises ShapeError for a mask that does not fit scores (batch, heads, queries, keys)."""
        if mask.dtype is not DType.BOOL and mask.dtype is not dtype:
            raise ShapeError(f"a mask is bool, or {dtype} to add, got {mask}", operand=operand)
        if mask.rank > 4 or build.broadcast_shapes([mask.shape, scores]) != scores:
            raise ShapeError(
                f"mask {mask} does not broadcast to {dims(scores)} (batch, heads, queries, keys)",
                operand=operand,
            )


def causal(queries: Dim, keys: Dim, first: Node | None = None) -> Node:
    """Whether query i may attend to key j, (queries, keys): the last query to every key, or query 0
    to keys up to `first`.
    """
    shape = (queries, keys)
    row, column = build.iota(shape, 0), build.iota(shape, 1)
    if first is None:
        return build.compare(column, "le", build.add(row, length(keys, queries)))
    return build.compare(column, "le", build.add(row, build.cast(first, DType.I64)))


def length(keys: Dim, queries: Dim) -> build.Value:
    """The number of keys minus the number of queries."""
    gap = keys - queries
    if not isinstance(gap, int):
        raise ShapeError(
            f"causal attention needs to know how many more keys ({keys}) than queries "
            f"({queries}) there are",
            operand=1,
        )
    return gap


@family
class MaskedHeads(Heads):
    """The attributes of `attention`, shared by its derivatives."""

    heads: int = 0
    kv_heads: int = 0
    causal: bool = False
    scale: float | None = None
    hidden: float | None = None

    def attended_type(self, q: Type, k: Type, v: Type, masks: Sequence[Type]) -> Type:
        """The type of the result. Raises ShapeError."""
        (batch, heads, time, _), (_, _, keys, _), (_, _, _, width) = self.shapes(q, k, v)
        for given in masks:
            self.check_mask(given, q.dtype, (batch, heads, time, keys), 3)
        if self.causal:
            length(keys, time)
        return q.with_shape(
            (batch, heads, time, width) if q.rank == 4 else (batch, time, heads * width)
        )

    def all_apart(
        self, q: Node, k: Node, v: Node, masks: Sequence[Node]
    ) -> tuple[Node, Node, Node, list[Node]]:
        """Queries, keys and values with separate heads, and all masks."""
        kv = self.kv_heads or self.heads
        q, k, v = self.apart(q, self.heads), self.apart(k, kv), self.apart(v, kv)
        order = [causal(q.shape[2], k.shape[2])] if self.causal else []
        return q, k, v, [*masks, *order]


@declare
class Attention(MaskedHeads):
    """softmax(q k' * scale + mask) v for each head.

    q, k, v are (batch, heads, time, width), or (batch, time, heads * width) with `heads`. There may
    be fewer key heads (`kv_heads`), each shared by as many queries. The mask broadcasts to (batch,
    heads, queries, keys): bool is true where a query may look, floats are added. `causal` lets the
    last query see every key, the one before it one less. `scale` is 1 / sqrt(width) if not given.
    `hidden` is the score of what a query may not see, the lowest finite number if not given: a
    query that may look nowhere then gets the mean of all values, with -inf it gets NaN.
    """

    mnemonic = "attention"
    operands = ("q", "k", "v", "mask?")

    def infer(self, *types: Type) -> Type:
        q, k, v, *mask = types
        return self.attended_type(q, k, v, mask)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        """Merges the new axis into the batch, unless masks differ along it."""
        if any(m.type.rank == 4 and m.shape[0] != 1 for m in node.inputs[3:]):
            return None
        return folded(node, inputs, mapped, size, 3)

    def expand(self, *inputs: Node) -> Node:
        q, k, v, *masks = inputs
        apart_q, apart_k, apart_v, masks = self.all_apart(q, k, v, masks)
        attended = self.attend(apart_q, apart_k, apart_v, masks, self.hidden)
        return self.joined(attended, q.type.rank)

    def differentiated(self, node: Node) -> Sequence[Node] | None:
        """The first result of `attention_sums`, which keeps what the derivative needs."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return [pick(apply("attention_sums", *node.inputs, **given), 0)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            q: Ints,
            k: Ints,
            v: Ints,
            mask: Ints | None = None,
            kind: DType = DType.F32,
            dtype: DType = DType.F32,
            **given: object,
        ) -> Sample:
            more = () if mask is None else (Type(kind, mask),)
            return Sample((Type(dtype, q), Type(dtype, k), Type(dtype, v), *more), given)

        four = (2, 3, 5, 8)
        cases = [
            case(four, four, four), case(four, four, four, causal=True),
            case(four, (2, 3, 7, 8), (2, 3, 7, 4)),
            case((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8), causal=True),
            case((2, 4, 1, 8), (2, 1, 7, 8), (2, 1, 7, 8), scale=0.5),
            case((2, 5, 24), (2, 5, 24), (2, 5, 24), heads=3),
            case((2, 5, 24), (2, 7, 8), (2, 7, 8), heads=3, kv_heads=1, causal=True),
            case(four, four, four, (2, 1, 1, 5)), case(four, four, four, (5, 5), DType.BOOL),
            case((1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), (1, 4, 3, 3)),
            case((0, 3, 5, 8), (0, 3, 5, 8), (0, 3, 5, 8)),
            case((1, 2, 33, 16), (1, 2, 33, 16), (1, 2, 33, 16), causal=True),
            case(four, four, four, (3, 1, 5), DType.BOOL),
            case(four, four, four, (2, 1, 1, 5), DType.BOOL, hidden=-math.inf),
            case(four, (2, 3, 7, 8), (2, 3, 7, 8), causal=True, hidden=-math.inf),
            case(four, (2, 3, 3, 8), (2, 3, 3, 8), causal=True, hidden=-2.0),
        ]  # fmt: skip
        return cases + [case(four, four, four, dtype=d, causal=True) for d in DType if d in FLOATS]
