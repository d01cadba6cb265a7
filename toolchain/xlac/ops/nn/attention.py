"""Attention, with masks, grouped heads and caches of keys and values; and the rotation of
positions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import FLOATS, INTEGERS, check_dtype, check_one_dtype, check_table, dims
from xlac.ops.nn.probability import Softmax
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.index import DynUpdate
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
        """The shape with heads apart."""
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
            raise ShapeError(
                f"{self.mnemonic}: a last axis of {width} does not divide into {heads} heads",
                attribute="heads",
            )
        return x.shape[0], heads, x.shape[1], width // heads

    def shapes(self, q: Type, k: Type, v: Type) -> tuple[tuple[Dim, Dim, Dim, Dim], ...]:
        for number, x in enumerate((q, k, v)):
            check_dtype(self.mnemonic, x, FLOATS, number)
        check_one_dtype(self.mnemonic, (q, k, v))
        if not q.rank == k.rank == v.rank:
            raise ShapeError(
                f"{self.mnemonic} needs queries, keys and values of one rank, got {q}, {k} and {v}",
                operand=1,
            )
        kv = self.kv_heads or self.heads
        found = self.split(q, 0, self.heads), self.split(k, 1, kv), self.split(v, 2, kv)
        (batch, heads, _, width), (kb, kh, kt, kw), (vb, vh, vt, _) = found
        if (kb, vb) != (batch, batch) or (kh, kt) != (vh, vt):
            raise ShapeError(
                f"{self.mnemonic} needs keys and values alike and of the queries' batch, got {q}, {k} and {v}",
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
        return found

    def apart(self, x: Node, heads: int) -> Node:
        """(batch, heads, time, width)."""
        if x.type.rank == 4:
            return x
        batch, count, time, width = self.split(x.type, 0, heads)
        return build.transpose(build.reshape(x, (batch, time, count, width)), (0, 2, 1, 3))

    def joined(self, x: Node, rank: int) -> Node:
        if rank == 4:
            return x
        batch, heads, time, width = x.shape
        return build.reshape(build.transpose(x, (0, 2, 1, 3)), (batch, time, heads * width))

    def attend(
        self, q: Node, k: Node, v: Node, masks: Sequence[Node], hidden: float | None = None
    ) -> Node:
        """softmax(q k' scale + masks) v, for tensors with heads apart, in the compute type.

        Query heads that share a key head are grouped on an axis of their own, so that keys are not
        repeated. `hidden` is the score of what masks of bool hide: the lowest finite number if not
        given.
        """
        dtype = q.type.dtype
        batch, heads, time, width = q.shape
        shared = k.shape[1]
        group = (
            heads // shared if isinstance(heads, int) and isinstance(shared, int) and shared else 1
        )
        q5 = build.reshape(q, (batch, shared, group, time, width))
        scores = build.dot(q5, k, ((4,), (3,)), ((0, 1), (0, 1)), dtype.compute)
        assert isinstance(width, int)
        scores = build.mul(scores, 1 / math.sqrt(width) if self.scale is None else self.scale)
        for mask in masks:
            if len(mask.shape) > 2 and mask.shape[-3] == heads and group > 1:
                mask = build.reshape(mask, (*mask.shape[:-3], shared, group, *mask.shape[-2:]))
            elif len(mask.shape) > 2:
                mask = build.reshape(mask, (*mask.shape[:-2], 1, *mask.shape[-2:]))
            if mask.type.dtype is DType.BOOL:
                lowest = float(np.finfo(dtype.compute.numpy).min) if hidden is None else hidden
                scores = build.select(build.broadcast_to(mask, scores.shape), scores, lowest)
            else:
                scores = build.add(scores, build.compute(mask))
        weights = build.cast(Softmax(-1).expand(scores), dtype)
        found = build.dot(weights, v, ((4,), (2,)), ((0, 1), (0, 1)), dtype.compute)
        return build.cast(build.reshape(found, (batch, heads, time, v.shape[3])), dtype)

    def attended(self, q: Node, k: Node, v: Node, masks: Sequence[Node]) -> Node:
        """`attend` as an operation, which some targets have a kernel for, where there is at most
        one mask.
        """
        if len(masks) > 1:
            return self.attend(q, k, v, masks)
        return Node.of(Attention(scale=self.scale), q, k, v, *masks)

    def check_mask(self, mask: Type, dtype: DType, scores: tuple[Dim, ...], operand: int) -> None:
        if mask.dtype is not DType.BOOL and mask.dtype is not dtype:
            raise ShapeError(f"a mask is bool, or {dtype} to add, got {mask}", operand=operand)
        if mask.rank > 4 or build.broadcast_shapes([mask.shape, scores]) != scores:
            raise ShapeError(
                f"mask {mask} does not broadcast to {dims(scores)} (batch, heads, queries, keys)",
                operand=operand,
            )


def causal(queries: Dim, keys: Dim, first: Node | None = None) -> Node:
    """Whether query i may see key j, (queries, keys): the last query sees every key, or query 0
    those up to `first`.
    """
    shape = (queries, keys)
    row, column = build.iota(shape, 0), build.iota(shape, 1)
    if first is None:
        return build.compare(column, "le", build.add(row, length(keys, queries)))
    return build.compare(column, "le", build.add(row, build.cast(first, DType.I64)))


def length(keys: Dim, queries: Dim) -> build.Value:
    """How many more keys there are than queries."""
    gap = keys - queries
    if not isinstance(gap, int):
        raise ShapeError(
            f"causal attention needs to know how many more keys ({keys}) than queries ({queries}) there are",
            operand=1,
        )
    return gap


@declare
class Attention(Heads):
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
    heads: int = 0
    kv_heads: int = 0
    causal: bool = False
    scale: float | None = None
    hidden: float | None = None

    def infer(self, *types: Type) -> Type:
        q, k, v, *mask = types
        (batch, heads, time, _), (_, _, keys, _), (_, _, _, width) = self.shapes(q, k, v)
        for given in mask:
            self.check_mask(given, q.dtype, (batch, heads, time, keys), 3)
        if self.causal:
            length(keys, time)
        return q.with_shape(
            (batch, heads, time, width) if q.rank == 4 else (batch, time, heads * width)
        )

    def expand(self, *inputs: Node) -> Node:
        q, k, v, *masks = inputs
        kv = self.kv_heads or self.heads
        apart = self.apart(q, self.heads), self.apart(k, kv), self.apart(v, kv)
        if self.causal:
            masks.append(causal(apart[0].shape[2], apart[1].shape[2]))
        return self.joined(self.attend(*apart, masks, self.hidden), q.type.rank)

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
        found = [
            case(four, four, four), case(four, four, four, causal=True), case(four, (2, 3, 7, 8), (2, 3, 7, 4)),
            case((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8), causal=True), case((2, 4, 1, 8), (2, 1, 7, 8), (2, 1, 7, 8), scale=0.5),
            case((2, 5, 24), (2, 5, 24), (2, 5, 24), heads=3), case((2, 5, 24), (2, 7, 8), (2, 7, 8), heads=3, kv_heads=1, causal=True),
            case(four, four, four, (2, 1, 1, 5)), case(four, four, four, (5, 5), DType.BOOL), case((1, 4, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), (1, 4, 3, 3)),
            case((0, 3, 5, 8), (0, 3, 5, 8), (0, 3, 5, 8)), case((1, 2, 33, 16), (1, 2, 33, 16), (1, 2, 33, 16), causal=True),
            case(four, four, four, (3, 1, 5), DType.BOOL), case(four, four, four, (2, 1, 1, 5), DType.BOOL, hidden=-math.inf),
            case(four, (2, 3, 7, 8), (2, 3, 7, 8), causal=True, hidden=-math.inf), case(four, (2, 3, 3, 8), (2, 3, 3, 8), causal=True, hidden=-2.0),
        ]  # fmt: skip
        return found + [case(four, four, four, dtype=d, causal=True) for d in DType if d in FLOATS]


@declare
class AttentionWithPast(Heads):
    """Attention to the past and the present: (y, keys, values), the last two with the new ones
    after the past ones.

    Operands as for `attention`, and the past keys and values, (batch, heads, time, width) whatever
    the rank of q.
    """

    mnemonic = "attention_with_past"
    operands = ("q", "k", "v", "past_k", "past_v", "mask?")
    heads: int = 0
    kv_heads: int = 0
    causal: bool = True
    scale: float | None = None

    def infer(self, *types: Type) -> Types:
        q, k, v, past_k, past_v, *mask = types
        (batch, heads, time, _), key, value = self.shapes(q, k, v)
        found = []
        for number, (past, (b, h, t, w)) in enumerate(((past_k, key), (past_v, value)), 3):
            if (
                past.dtype is not q.dtype
                or past.rank != 4
                or (past.shape[0], past.shape[1], past.shape[3]) != (b, h, w)
            ):
                raise ShapeError(
                    f"the past is {q.dtype}[{b}, {h}, time, {w}], got {past}", operand=number
                )
            found.append(past.with_shape((b, h, past.shape[2] + t, w)))
        keys = found[0].shape[2]
        if keys != found[1].shape[2]:
            raise ShapeError(f"past keys {past_k} and values {past_v} differ in time", operand=4)
        for given in mask:
            self.check_mask(given, q.dtype, (batch, heads, time, keys), 5)
        return q.with_shape(
            (batch, heads, time, value[3]) if q.rank == 4 else (batch, time, heads * value[3])
        ), *found

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        q, k, v, past_k, past_v, *masks = inputs
        kv = self.kv_heads or self.heads
        keys = build.concat((past_k, self.apart(k, kv)), 2)
        values = build.concat((past_v, self.apart(v, kv)), 2)
        queries = self.apart(q, self.heads)
        if self.causal and queries.shape[2] != 1:  # a single query, the last, sees everything
            masks.append(causal_after(past_k, queries.shape[2], keys.shape[2]))
        return self.joined(self.attended(queries, keys, values, masks), q.type.rank), keys, values

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(q: Ints, k: Ints, past: Ints, dtype: DType = DType.F32, **given: object) -> Sample:
            return Sample(tuple(Type(dtype, s) for s in (q, k, k, past, past)), given)

        found = [
            case((2, 3, 1, 8), (2, 3, 1, 8), (2, 3, 6, 8)), case((2, 4, 3, 8), (2, 2, 3, 8), (2, 2, 5, 8)),
            case((2, 1, 24), (2, 1, 24), (2, 3, 4, 8), heads=3), case((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 0, 4)),
            case((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 2, 4), causal=False),
        ]  # fmt: skip
        return found + [
            case((1, 2, 2, 4), (1, 2, 2, 4), (1, 2, 3, 4), d) for d in DType if d in FLOATS
        ]


def causal_after(past: Node, queries: Dim, keys: Dim) -> Node:
    """`causal` when the past may be of any length: query i sees the past and the present up to i."""
    if isinstance(past.shape[2], int):
        return causal(queries, keys)
    return causal(queries, keys, Node.of(DimSize(2), past))


@declare
class AttentionWithCache(Heads):
    """Attention to a cache of fixed size, into which the new keys and values go first: (y, keys,
    values).

    The cache is (batch, heads, room, width). The new ones go to `position` and after (an integer
    scalar, clamped so that they fit), and query i sees the cache up to `position + i`.
    """

    mnemonic = "attention_with_cache"
    operands = ("q", "k", "v", "cache_k", "cache_v", "position")
    heads: int = 0
    kv_heads: int = 0
    scale: float | None = None

    def infer(self, *types: Type) -> Types:
        q, k, v, cache_k, cache_v, position = types
        (batch, heads, time, _), key, value = self.shapes(q, k, v)
        for number, (cache, (b, h, t, w)) in enumerate(((cache_k, key), (cache_v, value)), 3):
            if (
                cache.dtype is not q.dtype
                or cache.rank != 4
                or (cache.shape[0], cache.shape[1], cache.shape[3]) != (b, h, w)
            ):
                raise ShapeError(
                    f"the cache is {q.dtype}[{b}, {h}, room, {w}], got {cache}", operand=number
                )
            if isinstance(t, int) and isinstance(cache.shape[2], int) and t > cache.shape[2]:
                raise ShapeError(f"{t} new keys do not fit the cache {cache}", operand=number)
        if cache_k.shape[2] != cache_v.shape[2]:
            raise ShapeError(f"caches {cache_k} and {cache_v} differ in room", operand=4)
        check_dtype(self.mnemonic, position, INTEGERS, 5)
        if position.shape:
            raise ShapeError(f"position is a scalar, got {position}", operand=5)
        return (
            q.with_shape(
                (batch, heads, time, value[3]) if q.rank == 4 else (batch, time, heads * value[3])
            ),
            cache_k,
            cache_v,
        )

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        q, k, v, cache_k, cache_v, position = inputs
        kv = self.kv_heads or self.heads
        queries = self.apart(q, self.heads)
        time, room = queries.shape[2], cache_k.shape[2]
        zero = build.constant(0, position.type.dtype)
        starts = (zero, zero, position, zero)
        keys = Node.of(DynUpdate(), cache_k, self.apart(k, kv), *starts)
        values = Node.of(DynUpdate(), cache_v, self.apart(v, kv), *starts)
        first = build.cast(position, DType.I64)
        first = build.maximum(build.minimum(first, length(room, time)), 0)
        y = self.attended(queries, keys, values, [causal(time, room, first)])
        return self.joined(y, q.type.rank), keys, values

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        q, cache, position = inputs[0], inputs[3], inputs[5]
        count = cache.shape[2] - self.apart(q, self.heads).shape[2] + 1
        return (OutOfRange(position, (count,), what="position {value}"),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            q: Ints, k: Ints, cache: Ints, dtype: DType = DType.F32, **given: object
        ) -> Sample:
            types = tuple(Type(dtype, s) for s in (q, k, k, cache, cache))
            return Sample((*types, Type(DType.I32)), given, ("normal",) * 5 + ("index",))

        found = [
            case((2, 3, 1, 8), (2, 3, 1, 8), (2, 3, 6, 8)), case((2, 4, 3, 8), (2, 2, 3, 8), (2, 2, 9, 8)),
            case((2, 1, 24), (2, 1, 24), (2, 3, 4, 8), heads=3), case((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
        ]  # fmt: skip
        return found + [
            case((1, 2, 2, 4), (1, 2, 2, 4), (1, 2, 7, 4), d) for d in DType if d in FLOATS
        ]


@declare
class RotaryEmbedding(Composite):
    """Rotates pairs of elements of the last axis by angles that grow with the position (along the
    axis before it).

    Pair i of `width` elements turns by position * base ** (-2 i / width). Pairs are element i and i
    + width / 2, or neighbours when `interleaved`. `width` may be less than the axis: the rest
    stays. Positions are integers of shape (time) or (batch, time); without them they count from 0.
    """

    mnemonic = "rotary_embedding"
    operands = ("x", "positions?")
    base: float = 10000.0
    interleaved: bool = False
    width: int = 0

    def turned(self, x: Type) -> int:
        if x.rank < 2 or not isinstance(x.shape[-1], int):
            raise ShapeError(
                f"{self.mnemonic} needs time and a known width as last axes, got {x}", operand=0
            )
        width = self.width or x.shape[-1]
        if width % 2 or not 0 < width <= x.shape[-1]:
            raise ShapeError(
                f"{self.mnemonic} cannot turn {width} of {x.shape[-1]} elements in pairs",
                attribute="width",
            )
        check_table(self.mnemonic, width // 2, x)
        return width

    def infer(self, *types: Type) -> Type:
        x, *positions = types
        check_dtype(self.mnemonic, x, FLOATS)
        self.turned(x)
        for given in positions:
            check_dtype(self.mnemonic, given, INTEGERS, 1)
            wanted = (x.shape[-2],) if given.rank < 2 else (x.shape[0], x.shape[-2])
            if given.shape != wanted or given.rank + 1 > x.rank:
                raise ShapeError(
                    f"positions {given} do not fit {x}: give {dims(wanted)}", operand=1
                )
        return x

    def expand(self, *inputs: Node) -> Node:
        x, *positions = inputs
        width, dtype = self.turned(x.type), x.type.dtype.compute
        half = width // 2
        where = positions[0] if positions else build.iota((x.shape[-2],), 0)
        rates = build.constant(np.power(self.base, -2.0 * np.arange(half) / width), dtype)
        angle = build.mul(build.reshape(build.cast(where, dtype), (*where.shape, 1)), rates)
        if where.type.rank == 2:  # (batch, time, half): unit axes for what lies between
            angle = build.reshape(angle, (x.shape[0], *[1] * (x.type.rank - 3), *angle.shape[1:]))
        cosine, sine = build.apply1("cos", angle), build.apply1("sin", angle)
        wide = build.compute(x)
        last = x.type.rank - 1
        head = build.cut(wide, last, 0, width)
        if self.interleaved:
            pairs = build.reshape(head, (*x.shape[:-1], half, 2))
            a, b = (
                build.reshape(build.cut(pairs, last + 1, n, n + 1), (*x.shape[:-1], half))
                for n in (0, 1)
            )
        else:
            a, b = build.cut(head, last, 0, half), build.cut(head, last, half, width)
        new_a = build.sub(build.mul(a, cosine), build.mul(b, sine))
        new_b = build.add(build.mul(b, cosine), build.mul(a, sine))
        if self.interleaved:
            ends = [build.reshape(n, (*n.shape, 1)) for n in (new_a, new_b)]
            head = build.reshape(build.concat(ends, last + 1), (*x.shape[:-1], width))
        else:
            head = build.concat((new_a, new_b), last)
        whole = x.shape[-1]
        if width != whole:
            head = build.concat((head, build.cut(wide, last, width, whole)), last)
        return build.cast(head, x.type.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found = [
            Sample((Type(DType.F32, (2, 3, 5, 8)),), {}), Sample((Type(DType.F32, (2, 3, 5, 8)),), {"interleaved": True}),
            Sample((Type(DType.F32, (5, 8)), Type(DType.I64, (5,))), {}, ("normal", "small")), Sample((Type(DType.F32, (0, 5, 8)),), {}),
            Sample((Type(DType.F32, (2, 3, 5, 8)), Type(DType.I32, (2, 5))), {"width": 4, "base": 100.0}, ("normal", "small")),
        ]  # fmt: skip
        return found + [Sample((Type(d, (2, 5, 6)),), {}) for d in DType if d in FLOATS]
