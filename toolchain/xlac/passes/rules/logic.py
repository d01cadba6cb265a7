"""Comparisons, selections, bits and conversions."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops.checks import BITS, FLOATS, INTEGERS
from xlac.ops.scalar.arithmetic import Max, Min
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Bitcast, Cast
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac.passes.rewrite.pattern import (
    and_,
    c,
    compare,
    d,
    max_,
    min_,
    not_,
    or_,
    p,
    select,
    shl,
    shr,
    x,
    xor,
    y,
    z,
)
from xlac.passes.rewrite.rule import Example, Parameter, Site, constant, rule
from xlac.passes.rules.algebra import varies
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.semantics import cast

BOOL = frozenset({DType.BOOL})
NUMBERS = INTEGERS | FLOATS
FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}

BITWISE = (
    (and_(c, x) >> and_(x, c)).on(BITS).when(varies),
    (or_(c, x) >> or_(x, c)).on(BITS).when(varies),
    (xor(c, x) >> xor(x, c)).on(BITS).when(varies),
    (and_(x, x) >> x).on(BITS),
    (or_(x, x) >> x).on(BITS),
    (xor(x, x) >> 0).on(INTEGERS),
    (xor(x, x) >> False).on(BOOL),
    (and_(x, -1) >> x).on(INTEGERS),
    (and_(x, True) >> x).on(BOOL),
    (and_(x, 0) >> 0).on(INTEGERS),
    (and_(x, False) >> False).on(BOOL),
    (or_(x, 0) >> x).on(INTEGERS),
    (or_(x, False) >> x).on(BOOL),
    (or_(x, -1) >> -1).on(INTEGERS),
    (or_(x, True) >> True).on(BOOL),
    (xor(x, 0) >> x).on(INTEGERS),
    (xor(x, False) >> x).on(BOOL),
    (and_(and_(x, c), d) >> and_(x, and_(c, d))).on(BITS),
    (or_(or_(x, c), d) >> or_(x, or_(c, d))).on(BITS),
    (xor(xor(x, c), d) >> xor(x, xor(c, d))).on(BITS),
    (xor(x, -1) >> not_(x)).on(INTEGERS),
    (xor(x, True) >> not_(x)).on(BOOL),
    (not_(not_(x)) >> x).on(BITS),
    (shl(x, 0) >> x).on(INTEGERS),
    (shr(x, 0) >> x).on(INTEGERS),
)

COMPARISONS = (
    *((compare(a, c, x) >> compare(b, x, c)).on(NUMBERS).when(varies) for a, b in FLIPPED.items()),
    *((compare(a, x, x) >> True).on(INTEGERS) for a in ("eq", "le", "ge")),
    (compare("eq", x, x) >> True).on(BOOL),
    (compare("ne", x, x) >> False).on(BITS),
    *((compare(a, x, x) >> False).on(NUMBERS) for a in ("lt", "gt")),
    (compare("ne", x, False) >> x).on(BOOL),
    (compare("eq", x, True) >> x).on(BOOL),
    (compare("eq", x, False) >> not_(x)).on(BOOL),
    (compare("ne", x, True) >> not_(x)).on(BOOL),
    *((not_(compare(a, x, y)) >> compare(OPPOSITE[a], x, y)).on(NUMBERS) for a in ("eq", "ne")),
    *(
        (not_(compare(a, x, y)) >> compare(OPPOSITE[a], x, y)).on(INTEGERS)
        for a in ("lt", "le", "gt", "ge")
    ),
)

SELECTIONS = (
    select(True, x, y) >> x,
    select(False, x, y) >> y,
    select(p, x, x) >> x,
    (select(x, True, False) >> x).on(BOOL),
    (select(x, False, True) >> not_(x)).on(BOOL),
    select(not_(p), x, y) >> select(p, y, x),
    select(p, select(p, x, y), z) >> select(p, x, z),
    select(p, x, select(p, y, z)) >> select(p, x, z),
    (select(compare("lt", x, y), y, x) >> max_(x, y)).on(INTEGERS),
    (select(compare("gt", x, y), x, y) >> max_(x, y)).on(INTEGERS),
    (select(compare("lt", x, y), x, y) >> min_(x, y)).on(INTEGERS),
    (select(compare("gt", x, y), y, x) >> min_(x, y)).on(INTEGERS),
)


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` is a value of `wide`, so that a cast is lossless."""
    if wide is narrow or narrow is DType.BOOL:
        return True
    if wide.is_float and narrow.is_float:
        return wide.bits > narrow.bits
    if wide.is_float:
        digits = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}[wide]
        return narrow.is_integer and narrow.bits - narrow.is_signed <= digits
    if narrow.is_float or wide is DType.BOOL:
        return False
    return wide.bits > narrow.bits and (wide.is_signed or not narrow.is_signed)


def _casts(*chain: DType) -> Example:
    """An example: a parameter of the first type, cast to each of the others in turn."""

    def example(p: Parameter) -> Node:
        node = p(7, dtype=chain[0])
        for dtype in chain[1:]:
            node = Node.of(Cast(dtype), node)
        return node

    return example


@rule(Cast, examples=[_casts(t, t) for t in (DType.F32, DType.BOOL)])
def drop_cast(node: Node, site: Site) -> Node | None:
    """Removes a cast to the type that a value has already."""
    return node.inputs[0] if node.type == node.inputs[0].type else None


CHAINS = (
    (DType.F16, DType.F32, DType.F64), (DType.I8, DType.I64, DType.F32),
    (DType.F32, DType.F64, DType.F32), (DType.I64, DType.I32, DType.I16),
    (DType.BOOL, DType.F16, DType.I8), (DType.U8, DType.I16, DType.U8),
    (DType.F16, DType.F32, DType.I32), (DType.I16, DType.F32, DType.BOOL),
    (DType.U32, DType.U64, DType.F64), (DType.BF16, DType.F32, DType.BF16),
    (DType.I32, DType.U32, DType.U8),
)  # fmt: skip


@rule(Cast, examples=[_casts(*chain) for chain in CHAINS])
def merge_casts(node: Node, site: Site) -> Node | None:
    """Merges a chain of casts where the first is lossless, or where integers only get narrower."""
    (inner,) = node.inputs
    if not isinstance(inner.op, Cast):
        return None
    source, middle, last = inner.inputs[0].type.dtype, inner.type.dtype, node.type.dtype
    wraps = all(t.is_integer for t in (source, middle, last)) and middle.bits >= last.bits
    return site.make(Cast(last), inner.inputs[0]) if holds(middle, source) or wraps else None


def _clamped(dtype: DType, *limits: tuple[type[Op], float]) -> Example:
    def example(p: Parameter) -> Node:
        node = p(40)
        for kind, limit in limits:
            number = Node.of(Const(np.asarray(limit, np.float32)))
            node = Node.of(kind(), node, Node.of(Broadcast((40,), ()), number))
        return Node.of(Cast(dtype), node)

    return example


@rule(
    Cast,
    examples=[
        _clamped(DType.U8, (Max, 0.0), (Min, 255.0)),
        _clamped(DType.I8, (Min, 127.5), (Max, -129.0)),
        _clamped(DType.I32, (Max, -(2.0**31))),
    ],
)
def drop_clamp(node: Node, site: Site) -> Node | None:
    """Removes a clamp before a cast of floats to integers, which clamps to the type's limits
    itself.
    """
    (inner,) = node.inputs
    dtype, extreme = node.type.dtype, type(inner.op)
    if not inner.type.dtype.is_float or not dtype.is_integer or extreme not in (Max, Min):
        return None
    info = np.iinfo(dtype.numpy)
    for held, by in (inner.inputs, inner.inputs[::-1]):
        limit = constant(by)
        if limit is None or np.isnan(limit):
            continue
        if int(cast(limit, dtype)) == int(info.min if extreme is Max else info.max):
            return site.make(node.op, held)
    return None


@rule(
    Bitcast,
    examples=[
        lambda p: Node.of(Bitcast(DType.F32), Node.of(Bitcast(DType.I32), p(5))),
        lambda p: Node.of(Bitcast(DType.U32), Node.of(Bitcast(DType.I32), p(5))),
        lambda p: Node.of(Bitcast(DType.F32), Node.of(Bitcast(DType.U8), p(5))),
    ],
)
def merge_bitcasts(node: Node, site: Site) -> Node | None:
    """Merges two bitcasts, and removes one to the type that a value has already."""
    (inner,) = node.inputs
    if inner.type == node.type:
        return inner
    if isinstance(inner.op, Bitcast) and (
        inner.inputs[0].type == node.type or node.shape == inner.inputs[0].shape
    ):
        return site.make(Bitcast(node.type.dtype), inner.inputs[0])
    return None


def _widened(dtype: DType) -> Example:
    return lambda p: Node.of(
        Compare("lt"), _casts(dtype, DType.F32)(p), _casts(dtype, DType.F32)(p)
    )


@rule(Compare, examples=[_widened(t) for t in (DType.I8, DType.F16, DType.U16)])
def compare_uncast(node: Node, site: Site) -> Node | None:
    """Compares values before a lossless cast instead of after it."""
    a, b = node.inputs
    if not (isinstance(a.op, Cast) and isinstance(b.op, Cast)):
        return None
    x, y = a.inputs[0], b.inputs[0]
    if (
        x.type.dtype is not y.type.dtype
        or x.type.dtype is DType.BOOL
        or not holds(a.type.dtype, x.type.dtype)
    ):
        return None
    return site.make(node.op, x, y)


def _indicator(dtype: DType) -> Example:
    one, zero = (
        Node.of(Broadcast((4,), ()), Node.of(Const(np.array(v).astype(dtype.numpy))))
        for v in (1, 0)
    )
    return lambda p: Node.of(Select(), p(4, dtype=DType.BOOL), one, zero)


@rule(Select, examples=[_indicator(t) for t in (DType.F32, DType.I8)])
def select_is_cast(node: Node, site: Site) -> Node | None:
    """A selection of 1 where a condition holds and 0 elsewhere becomes a cast of the condition."""
    condition, x, y = node.inputs
    a, b = constant(x), constant(y)
    if a is None or b is None or node.type.dtype is DType.BOOL:
        return None
    if (
        a.tobytes() == np.array(1).astype(a.dtype).tobytes()
        and b.tobytes() == np.array(0).astype(b.dtype).tobytes()
    ):
        return site.make(Cast(node.type.dtype), condition)
    return None


LOGIC = (
    BITWISE
    + COMPARISONS
    + SELECTIONS
    + (drop_cast, drop_clamp, merge_casts, merge_bitcasts, compare_uncast, select_is_cast)
)
