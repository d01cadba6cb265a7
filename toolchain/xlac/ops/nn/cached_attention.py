"""Attention of a decoder: to past and present keys, and to a cache of fixed size."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.dims import Dim
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import FLOATS, INTEGERS, check_dtype
from xlac.ops.nn.attention import Heads, Ints, causal, length
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac_sdk.dtypes import DType


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
        grown = []
        for number, (past, (b, h, t, w)) in enumerate(((past_k, key), (past_v, value)), 3):
            if (
                past.dtype is not q.dtype
                or past.rank != 4
                or (past.shape[0], past.shape[1], past.shape[3]) != (b, h, w)
            ):
                raise ShapeError(
                    f"the past is {q.dtype}[{b}, {h}, time, {w}], got {past}", operand=number
                )
            grown.append(past.with_shape((b, h, past.shape[2] + t, w)))
        keys = grown[0].shape[2]
        if keys != grown[1].shape[2]:
            raise ShapeError(f"past keys {past_k} and values {past_v} differ in time", operand=4)
        for given in mask:
            self.check_mask(given, q.dtype, (batch, heads, time, keys), 5)
        return q.with_shape(
            (batch, heads, time, value[3]) if q.rank == 4 else (batch, time, heads * value[3])
        ), *grown

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        q, k, v, past_k, past_v, *masks = inputs
        kv = self.kv_heads or self.heads
        keys = build.concat((past_k, self.apart(k, kv)), 2)
        values = build.concat((past_v, self.apart(v, kv)), 2)
        queries = self.apart(q, self.heads)
        if self.causal and queries.shape[2] != 1:  # a single query, the last, attends to everything
            masks.append(causal_after(past_k, queries.shape[2], keys.shape[2]))
        return self.joined(self.attended(queries, keys, values, masks), q.type.rank), keys, values

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(q: Ints, k: Ints, past: Ints, dtype: DType = DType.F32, **given: object) -> Sample:
            return Sample(tuple(Type(dtype, s) for s in (q, k, k, past, past)), given)

        samples = [
            case((2, 3, 1, 8), (2, 3, 1, 8), (2, 3, 6, 8)),
            case((2, 4, 3, 8), (2, 2, 3, 8), (2, 2, 5, 8)),
            case((2, 1, 24), (2, 1, 24), (2, 3, 4, 8), heads=3),
            case((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 0, 4)),
            case((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 2, 4), causal=False),
        ]
        return samples + [
            case((1, 2, 2, 4), (1, 2, 2, 4), (1, 2, 3, 4), d) for d in DType if d in FLOATS
        ]


def causal_after(past: Node, queries: Dim, keys: Dim) -> Node:
    """The causal mask for a past of any length: query i attends to the past and the present up to
    i.
    """
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

        samples = [
            case((2, 3, 1, 8), (2, 3, 1, 8), (2, 3, 6, 8)),
            case((2, 4, 3, 8), (2, 2, 3, 8), (2, 2, 9, 8)),
            case((2, 1, 24), (2, 1, 24), (2, 3, 4, 8), heads=3),
            case((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)),
        ]
        return samples + [
            case((1, 2, 2, 4), (1, 2, 2, 4), (1, 2, 7, 4), d) for d in DType if d in FLOATS
        ]
