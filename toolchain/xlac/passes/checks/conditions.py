"""Builds the nodes that are true where a fault declared by an operation occurs (`ir/faults.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xlac.ir.dims import Dim, bounds
from xlac.ir.faults import DeclaredFault, IntegerDivision, NegativePower, OutOfRange, SizeOverflow
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar import arithmetic, comparison
from xlac.ops.tensor.dynamic import Compact, DimSize
from xlac_sdk.dtypes import DType

WIDE = DType.I64


class Condition(NamedTuple):
    """A condition of a `kind` (bounds, division, sizes, nan, infinity); elements where `bad` is
    true are at fault.

    `value` holds an integer for the message of each element, or is None; `message` says what is
    wrong, with `{value}` for that number.
    """

    kind: str
    bad: Node
    message: str
    value: Node | None = None


def conditions(fault: DeclaredFault) -> tuple[Condition, ...]:
    """The conditions for a declared fault; none where it cannot occur."""
    match fault:
        case OutOfRange():
            return outside(fault)
        case IntegerDivision():
            return divided(fault)
        case NegativePower():
            return raised(fault)
        case SizeOverflow():
            return overflown(fault)


def extent(size: Dim) -> Node:
    """A size as an i64 scalar, evaluated at run time."""
    if isinstance(size, int):
        return build.constant(size, WIDE)
    return build.cast(Node.of(DimSize(0), build.full(False, (size,), DType.BOOL)), WIDE)


def outside(fault: OutOfRange) -> tuple[Condition, ...]:
    """Where indices are out of range.

    None where there is nothing to index, and for indices from `compact`: there, indices out of
    range stand for absent elements.
    """
    indices, counts, axis = fault.indices, fault.counts, fault.axis
    if not counts or any(count == 0 for count in counts) or _compacted(indices):
        return ()
    given = _unwrapped(indices, counts)
    # a u64 beyond i64 becomes negative, so is out of range either way
    wide = build.cast(given, WIDE)
    if axis is None:
        (count,) = counts
        most = build.spread(extent(count), wide.shape, ())
    else:
        known = [n for n in counts if isinstance(n, int)]
        row = (
            build.constant(np.asarray(known, np.int64))
            if len(known) == len(counts)
            else build.concat([build.reshape(extent(n), (1,)) for n in counts])
        )
        most = build.spread(row, wide.shape, (axis,))
    signed = fault.wraps or given is not indices
    least = build.mul(most, -1) if signed and given.type.dtype.is_signed else build.like(0, wide)
    bad = either(build.compare(wide, "lt", least), build.compare(wide, "ge", most))
    span = (
        f"-{_size_text(counts)} to {_size_text(counts)} - 1"
        if signed and given.type.dtype.is_signed
        else f"0 to {_size_text(counts)} - 1"
    )
    return (Condition("bounds", bad, f"{fault.what} is outside {_computed(counts, span)}", given),)


def _size_text(counts: Sequence[Dim]) -> str:
    return str(counts[0]) if len(counts) == 1 else "size"


def _computed(counts: Sequence[Dim], span: str) -> str:
    """The range of an index as numbers, where they are known."""
    if len(counts) > 1:
        return f"its axis (sizes {', '.join(map(str, counts))})"
    (count,) = counts
    return span.replace(f"{count} - 1", str(count - 1)) if isinstance(count, int) else span


def _unwrapped(indices: Node, counts: Sequence[Dim]) -> Node:
    """The indices before `build.from_end`, where it knew the counts; messages show these."""
    match indices.op:
        case comparison.Select() if len(counts) == 1:
            test, shifted, plain = indices.inputs
            below = (
                isinstance(test.op, comparison.Compare)
                and test.op.direction == "lt"
                and test.inputs[0] is plain
            )
            if below and isinstance(shifted.op, arithmetic.Add) and shifted.inputs[0] is plain:
                return plain
    return indices


def _compacted(indices: Node) -> bool:
    """Whether indices come from `compact`, through any integer operations."""
    seen: set[Node] = set()
    left = [indices]
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node.op, Compact):
            return True
        left += [
            i
            for i in node.inputs
            if (not isinstance(i.types, tuple) and not i.type.dtype.is_float)
            or isinstance(i.op, Compact)
        ]
    return False


def divided(fault: IntegerDivision) -> tuple[Condition, ...]:
    """Where a divisor is zero, or the quotient overflows."""
    x, y, dtype = fault.x, fault.y, fault.x.type.dtype
    if not dtype.is_integer:
        return ()
    conditions = [Condition("division", build.compare(y, "eq", 0), "{value} is divided by 0", x)]
    if fault.overflows and dtype.is_signed:
        least = int(np.iinfo(dtype.numpy).min)
        bad = both(build.compare(x, "eq", least), build.compare(y, "eq", -1))
        message = f"{least} is divided by -1, and no {dtype} holds the quotient"
        conditions.append(Condition("division", bad, message))
    return tuple(conditions)


def raised(fault: NegativePower) -> tuple[Condition, ...]:
    """Where an integer zero is raised to a negative power."""
    x, y = fault.x, fault.y
    if not x.type.dtype.is_signed or not x.type.dtype.is_integer:
        return ()
    bad = both(build.compare(x, "eq", 0), build.compare(y, "lt", 0))
    return (Condition("division", bad, "0 is raised to the power {value}: a division by 0", y),)


def overflown(fault: SizeOverflow) -> tuple[Condition, ...]:
    """Whether a size exceeds its integer type."""
    dtype = fault.dtype
    if not dtype.is_integer or bounds(fault.size)[1] <= int(np.iinfo(dtype.numpy).max):
        return ()
    value = extent(fault.size)
    bad = build.compare(value, "gt", build.constant(int(np.iinfo(dtype.numpy).max), WIDE))
    message = f"{fault.what} is {{value}}, and {dtype} holds no such number"
    return (Condition("sizes", bad, message, value),)


def both(x: Node, y: Node) -> Node:
    """The conjunction of two conditions."""
    return Node.of(arithmetic.And(), x, y)


def either(x: Node, y: Node) -> Node:
    """The disjunction of two conditions; bitwise or, for integers."""
    return Node.of(arithmetic.Or(), x, y)
