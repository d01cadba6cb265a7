"""What operations declare of values that they take, but should not have been given, as nodes that
find them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.faults import Fault
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar import arithmetic
from xlac.ops.tensor.dynamic import Compact, DimSize
from xlac_sdk.dtypes import DType

WIDE = DType.I64


def extent(size: Dim) -> Node:
    """A size as an i64 scalar, at the sizes of the call."""
    if isinstance(size, int):
        return build.constant(size, WIDE)
    return build.cast(Node.of(DimSize(0), build.full(False, (size,), DType.BOOL)), WIDE)


def outside(
    indices: Node,
    counts: Sequence[Dim],
    axis: int | None = None,
    wraps: bool = False,
    what: str = "index {value}",
) -> tuple[Fault, ...]:
    """Indices that are not below the count, or are negative; those of at least -count are fine
    where one `wraps`.

    With an axis of `indices` there is a count for each position along it; without, one for all.
    Nothing where there is nothing to index (`what` it is, for the message), and for what `compact`
    gives: its indices out of range stand for elements that are not there.
    """
    if not counts or any(count == 0 for count in counts) or _compacted(indices):
        return ()
    given = _unwrapped(indices, counts)
    wide = build.cast(given, WIDE)  # a u64 beyond i64 becomes negative, and is outside either way
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
    signed = wraps or given is not indices
    least = build.mul(most, -1) if signed and given.type.dtype.is_signed else build.like(0, wide)
    bad = either(build.compare(wide, "lt", least), build.compare(wide, "ge", most))
    span = (
        f"-{_told(counts)} to {_told(counts)} - 1"
        if signed and given.type.dtype.is_signed
        else f"0 to {_told(counts)} - 1"
    )
    return (Fault("bounds", bad, f"{what} is outside {_computed(counts, span)}", given),)


def _told(counts: Sequence[Dim]) -> str:
    return str(counts[0]) if len(counts) == 1 else "size"


def _computed(counts: Sequence[Dim], span: str) -> str:
    """The range of an index in figures, where they are known."""
    if len(counts) > 1:
        return f"its axis (sizes {', '.join(map(str, counts))})"
    (count,) = counts
    return span.replace(f"{count} - 1", str(count - 1)) if isinstance(count, int) else span


def _unwrapped(indices: Node, counts: Sequence[Dim]) -> Node:
    """The indices as they were before `build.from_end`, for counts that it knew: messages show
    those.
    """
    match indices.op:
        case arithmetic.Select() if len(counts) == 1:
            test, shifted, plain = indices.inputs
            below = (
                isinstance(test.op, arithmetic.Compare)
                and test.op.direction == "lt"
                and test.inputs[0] is plain
            )
            if below and isinstance(shifted.op, arithmetic.Add) and shifted.inputs[0] is plain:
                return plain
    return indices


def _compacted(indices: Node) -> bool:
    """Whether indices come from `compact`, through whatever computation of integers."""
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


def divided(x: Node, y: Node, overflows: bool = True) -> tuple[Fault, ...]:
    """Integers divided by zero and, where the quotient is wanted, the least of a signed type by -1."""
    dtype = x.type.dtype
    if not dtype.is_integer:
        return ()
    found = [Fault("division", build.compare(y, "eq", 0), "{value} is divided by 0", x)]
    if overflows and dtype.is_signed:
        least = int(np.iinfo(dtype.numpy).min)
        bad = both(build.compare(x, "eq", least), build.compare(y, "eq", -1))
        found.append(
            Fault("division", bad, f"{least} is divided by -1, and no {dtype} holds the quotient")
        )
    return tuple(found)


def raised(x: Node, y: Node) -> tuple[Fault, ...]:
    """Zero to a negative power, for integers."""
    if not x.type.dtype.is_signed or not x.type.dtype.is_integer:
        return ()
    bad = both(build.compare(x, "eq", 0), build.compare(y, "lt", 0))
    return (Fault("division", bad, "0 is raised to the power {value}: a division by 0", y),)


def holds(size: Dim, dtype: DType, what: str) -> tuple[Fault, ...]:
    """A size that an integer type may be too narrow for."""
    from xlac.ir.dims import bounds

    if not dtype.is_integer or bounds(size)[1] <= int(np.iinfo(dtype.numpy).max):
        return ()
    value = extent(size)
    bad = build.compare(value, "gt", build.constant(int(np.iinfo(dtype.numpy).max), WIDE))
    return (Fault("sizes", bad, f"{what} is {{value}}, and {dtype} holds no such number", value),)


def both(x: Node, y: Node) -> Node:
    return Node.of(arithmetic.And(), x, y)


def either(x: Node, y: Node) -> Node:
    return Node.of(arithmetic.Or(), x, y)
