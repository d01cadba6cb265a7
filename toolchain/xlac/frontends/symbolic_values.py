"""Operations on arrays of symbolic sizes, by which the arithmetic that computes shapes is evaluated
while a model is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, Sym, bounds
from xlac.ir.op import Array, Op


class DataDependent(Exception):
    """A size depends on values that the model computes."""


class OpenComparison:
    """A comparison that holds for some sizes, and for others not."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


def decided(*arrays: Array) -> None:
    """Raises DataDependent where an element is undecided."""
    for array in arrays:
        if array.dtype == object:
            for element in array.flat:
                if isinstance(element, OpenComparison):
                    raise DataDependent(element.reason)


def _size(element: Any) -> Dim:
    """An element as a size: its numbers are of Python, whose arithmetic does not overflow."""
    return element if isinstance(element, Sym) else int(element)


def _quotient(op: Op, x: Array, y: Array) -> Any:
    return np.frompyfunc(_divided, 2, 1)(x, y)


def _divided(x: Any, y: Any) -> Dim:
    """The quotient of sizes, rounded towards zero."""
    a, b = _size(x), _size(y)
    (low, high), least = bounds(a), bounds(b)[0]
    if -least < low and high < least:
        return 0
    if high <= 0 < least:
        return -_divided(a * -1, b)
    if low < 0 or least <= 0:
        raise DataDependent(f"the quotient of sizes that may be negative, {a} by {b}")
    if isinstance(a, int) and not isinstance(b, int):
        raise DataDependent(f"the quotient of {a} by {b}")
    try:
        return a // b  # type: ignore[operator]
    except ValueError:
        raise DataDependent(f"the quotient of {a} by {b}") from None


def _remainder(op: Op, x: Array, y: Array) -> Any:
    return np.frompyfunc(lambda a, b: _size(a) - _divided(a, b) * _size(b), 2, 1)(x, y)


def _compared(op: Any, x: Array, y: Array) -> Any:
    def one(a: Any, b: Any) -> Any:
        try:
            return _holds(a, op.direction, b)
        except DataDependent as error:
            return OpenComparison(str(error))

    return np.frompyfunc(one, 2, 1)(x, y)


def _joined(decisive: bool) -> Callable[..., Any]:
    """Of two truths: one that is `decisive` decides alone."""

    def one(a: Any, b: Any) -> Any:
        for x, y in ((a, b), (b, a)):
            if not isinstance(x, OpenComparison):
                return decisive if bool(x) is decisive else y
        return a

    return lambda op, x, y: np.frompyfunc(one, 2, 1)(_truths(x), _truths(y))


def _negated(op: Op, x: Array) -> Any:
    def one(a: Any) -> Any:
        return a if isinstance(a, OpenComparison) else not a

    return np.frompyfunc(one, 1, 1)(_truths(x))


def _truths(x: Array) -> Array:
    """An array of truths, since `and` of numbers is bit by bit."""
    if x.dtype != bool and any(not isinstance(v, bool | np.bool_ | OpenComparison) for v in x.flat):
        raise DataDependent("the bits of a symbolic size")
    return x


def _holds(a: Any, direction: str, b: Any) -> bool:
    """Whether a relation between two sizes holds for all values of their symbols."""
    low, high = bounds(_size(a) - _size(b))
    match direction:
        case "eq" | "ne" if low == high == 0 or low > 0 or high < 0:
            return (low == high == 0) == (direction == "eq")
        case "lt" | "ge" if high < 0 or low >= 0:
            return (high < 0) == (direction == "lt")
        case "le" | "gt" if high <= 0 or low > 0:
            return (high <= 0) == (direction == "le")
    raise DataDependent(f"whether {a} {direction} {b}")


def _extreme(direction: str) -> Callable[..., Any]:
    def chosen(op: Op, x: Array, y: Array) -> Any:
        return np.frompyfunc(lambda a, b: a if _holds(a, direction, b) else b, 2, 1)(x, y)

    return chosen


def _selected(op: Op, test: Array, x: Array, y: Array) -> Any:
    decided(test)
    return np.where(test.astype(bool), x, y)


def _gathered(op: Op, x: Array, indices: Array) -> Any:
    """Gathers symbolic elements by gathering their positions."""
    if indices.dtype == object:
        raise DataDependent("an index that is a symbolic size")
    return x.reshape(-1)[op.evaluate(np.arange(x.size).reshape(x.shape), indices)]


def _reduced(op: Any, x: Array) -> Any:
    if op.body is not None or op.combine not in ("add", "mul"):
        raise DataDependent(f"a reduction by {op.combine or 'a body'} of symbolic sizes")
    combine = np.add if op.combine == "add" else np.multiply
    return combine.reduce(x, axis=op.axes, dtype=object)


def _sliced(op: Any, x: Array) -> Any:
    cuts = zip(op.starts, op.stops, op.steps, strict=True)
    return x[tuple(slice(a, None if k < 0 and b == -1 else b, k) for a, b, k in cuts)]


def _spread(op: Any, x: Array) -> Any:
    shape = [1] * len(op.shape)
    for axis, size in zip(op.axes, x.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(x.reshape(shape), op.shape)


def _same(op: Op, x: Array) -> Array:
    return x


SYMBOLIC: dict[str, Callable[..., Any]] = {
    "cast": _same,
    "add": lambda op, x, y: x + y,
    "sub": lambda op, x, y: x - y,
    "mul": lambda op, x, y: x * y,
    "div": _quotient,
    "rem": _remainder,
    "and": _joined(False),
    "or": _joined(True),
    "not": _negated,
    "reshape": lambda op, x: x.reshape(op.shape),
    "transpose": lambda op, x: x.transpose(op.perm),
    "broadcast": _spread,
    "slice": _sliced,
    "reduce": _reduced,
    "max": _extreme("ge"),
    "min": _extreme("le"),
    "compare": _compared,
    "select": _selected,
    "gather": _gathered,
    "concat": lambda op, *xs: np.concatenate([x.astype(object) for x in xs], op.axis),
}
"""Operations that are defined on arrays of symbolic sizes; all others need plain numbers."""

OF_UNDECIDED = {
    "and", "or", "not", "cast", "select", "reshape", "transpose", "broadcast", "slice", "gather",
    "concat",
}  # fmt: skip
"""Those that take elements that are undecided."""
