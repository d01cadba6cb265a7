"""Nodes for checks: the first position where a condition holds, and records of failures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import bounds, volume
from xlac.ir.faults import NAN
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar.arithmetic import And, Shr
from xlac.ops.scalar.native import Abs
from xlac.passes.checks.conditions import either, extent
from xlac.support.failures import WORDS
from xlac_sdk.dtypes import DType

WIDE = DType.I64
# bits of a position that shares an integer of 32, or of 64, bits with the number of a check
SHORT, LONG = 24, 48


def has(x: Node, kind: str) -> Node:
    """Whether a value is NaN, or infinite, elementwise."""
    if kind == NAN:
        return build.compare(x, "ne", x)
    return build.compare(Node.of(Abs(), x), "eq", build.like(float("inf"), x))


def counts(x: Node) -> DType:
    """The integer type for positions in a value; its largest number stands for no position."""
    return DType.I32 if bounds(volume(x.shape))[1] < np.iinfo(np.int32).max else WIDE


def no_position(x: Node) -> Node:
    """The largest number of the type for positions in a value, which stands for no position."""
    dtype = counts(x)
    return build.constant(np.iinfo(dtype.numpy).max, dtype)


def positions(x: Node, dtype: DType) -> Node:
    """The row-major position of every element of a value."""
    return build.reshape(build.iota((volume(x.shape),), 0, dtype), x.shape)


def first_position(bad: Node) -> Node:
    """The first position where a condition is true."""
    code, position = first_of([bad])
    dtype = counts(bad)
    return build.select(build.compare(code, "eq", 0), build.cast(position, dtype), no_position(bad))


def first_of(bad: Sequence[Node]) -> tuple[Node, Node]:
    """The first of several conditions of one shape that is true anywhere, and the first position
    where it is.

    Where none is, the first result is the number of conditions. The last axis is reduced by itself,
    as most kernels read a value in that order, in 32 bits where it is short enough: check and
    position are the high and low bits of one integer.
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
    """The element at a position, as i64; 0 for no position."""
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
    """0, as an element of a record."""
    return build.constant(0, WIDE)


def empty_record() -> Node:
    """The record of no failure."""
    return build.constant(np.zeros(WORDS, np.int64))


def first_failure(rows: Sequence[Node]) -> Node:
    """The first of several rows that records a failure, or the last row."""
    table = build.concat(list(rows), 0)
    count = table.shape[0]
    assert isinstance(count, int)
    if count == 1:
        return build.reshape(table, (WORDS,))
    failed = build.compare(build.reshape(build.cut(table, 1, 0, 1), (count,)), "ne", 0)
    place = build.select(failed, build.iota((count,), 0), build.full(count - 1, (count,), WIDE))
    return build.take(table, build.reduce(place, "min"), 0)
