"""The nodes that checks are made of: where a condition is first true, and records of what
failed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import bounds, volume
from xlac.ir.faults import NAN
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.scalar.arithmetic import And, Shr
from xlac.ops.scalar.native import Abs
from xlac.passes.checks.conditions import either, extent
from xlac.support.failures import WORDS
from xlac_sdk.dtypes import DType

WIDE = DType.I64
RECORD = Type(WIDE, (WORDS,))
# bits of a position that share an integer of 32, or of 64, with the number of a check
SHORT, LONG = 24, 48


def has(x: Node, kind: str) -> Node:
    """Where a value is NaN, or infinite."""
    if kind == NAN:
        return build.compare(x, "ne", x)
    return build.compare(Node.of(Abs(), x), "eq", build.like(float("inf"), x))


def counts(x: Node) -> DType:
    """The integers that number the elements of a value; the largest stands for none of them."""
    return DType.I32 if bounds(volume(x.shape))[1] < np.iinfo(np.int32).max else WIDE


def no_position(x: Node) -> Node:
    """What stands for no position among those of a value: the largest of their integers."""
    dtype = counts(x)
    return build.constant(np.iinfo(dtype.numpy).max, dtype)


def positions(x: Node, dtype: DType) -> Node:
    """The row-major position of every element of a value."""
    return build.reshape(build.iota((volume(x.shape),), 0, dtype), x.shape)


def first_position(bad: Node) -> Node:
    """The first position that is true."""
    code, position = first_of([bad])
    dtype = counts(bad)
    return build.select(build.compare(code, "eq", 0), build.cast(position, dtype), no_position(bad))


def first_of(bad: Sequence[Node]) -> tuple[Node, Node]:
    """The first of some conditions of one shape that is true anywhere, and the first position where
    it is.

    Where none is, the first is the number of conditions. The last axis is reduced by itself, as
    most kernels read a value anyway, in 32 bits where it is short enough: check and position are
    the high and low bits of one integer.
    """
    shape = bad[0].shape
    rows, columns = (shape[:-1], shape[-1]) if shape else ((), 1)
    short = bounds(columns)[1] <= 1 << SHORT
    dtype, bits = (DType.I32, SHORT) if short else (WIDE, LONG)
    codes = build.full(len(bad) << bits, shape, dtype)
    for number, condition in reversed(list(enumerate(bad))):
        codes = build.select(condition, build.full(number << bits, shape, dtype), codes)
    if shape:
        column = build.spread(build.iota((columns,), 0, dtype), shape, (len(rows),))
        codes = build.reduce(either(codes, column), "min", len(rows))
    low = build.full((1 << bits) - 1, codes.shape, dtype)
    code = build.cast(Node.of(Shr(), codes, build.full(bits, codes.shape, dtype)), WIDE)
    place = build.cast(Node.of(And(), codes, low), WIDE)
    if rows:
        start = build.mul(positions(codes, WIDE), build.spread(extent(columns), codes.shape, ()))
        keys = either(build.mul(code, 1 << LONG), build.add(start, place))
        least = build.reduce(keys, "min")
        code = Node.of(Shr(), least, build.constant(LONG, WIDE))
        place = Node.of(And(), least, build.constant((1 << LONG) - 1, WIDE))
    return code, place


def element_at(value: Node, first: Node) -> Node:
    """The element at a position, as i64; 0 where there is none."""
    wide = build.cast(value, WIDE)
    if not value.shape:
        return wide
    here = build.compare(
        positions(value, counts(value)), "eq", build.spread(first, value.shape, ())
    )
    return build.reduce(build.select(here, wide, build.like(0, wide)), "add")


def as_row(record: Node) -> Node:
    """A record as a row of a table of records."""
    return build.reshape(record, (1, WORDS))


def zero() -> Node:
    """0 as a number of a record."""
    return build.constant(0, WIDE)


def empty_record() -> Node:
    """A record of nothing."""
    return build.constant(np.zeros(WORDS, np.int64))


def first_failure(rows: Sequence[Node]) -> Node:
    """The first of some rows that says of a failure, or the last of them."""
    table = build.concat(list(rows), 0)
    count = table.shape[0]
    assert isinstance(count, int)
    if count == 1:
        return build.reshape(table, (WORDS,))
    failed = build.compare(build.reshape(build.cut(table, 1, 0, 1), (count,)), "ne", 0)
    place = build.select(failed, build.iota((count,), 0), build.full(count - 1, (count,), WIDE))
    return build.take(table, build.reduce(place, "min"), 0)
