"""Lists of numbers in expressions: `[1, 2, 0.5]`, `[[1, 0], [0, 1]]`, and parameters that are
lists.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac.ir.graph import Node
from xlac.ops.tensor.leaf import Const
from xlac.ops.values import Weak
from xlac.spec.report import Fault
from xlac.spec.text.floats import beyond, check_room
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin, Span

if TYPE_CHECKING:
    from xlac.spec.elaborate.evaluate import Evaluator

MOST = 65_536  # numbers of a list; a constant and the weights file have more
JOIN = "stack or concat make a tensor of values: stack([a, b])"


def written_list(evaluator: Evaluator, node: ast.List) -> Weak:
    """A list in an expression, whose elements are numbers that are known when the model is built.
    Raises Fault.
    """

    def element(part: ast.expr) -> Any:
        if isinstance(part, ast.List):
            return [element(one) for one in part.elts]
        if evaluator.is_value(part):
            problem = "a list holds numbers that are known when the model is built"
            raise evaluator.fault(part, "XL2006", problem, JOIN)
        return evaluator.number(part)

    def place(at: Sequence[int]) -> Span:
        part: ast.expr = node
        for number in at:
            assert isinstance(part, ast.List)
            part = part.elts[number]
        return evaluator.span(part)

    return as_list(evaluator, element(node), place)


def list_parameter(evaluator: Evaluator, node: ast.expr, data: list[Any]) -> Weak:
    """The value of `$name` or `${…}` that is a list. Raises Fault."""
    return as_list(evaluator, data, lambda at: evaluator.span(node))


def as_list(evaluator: Evaluator, data: list[Any], place: Callable[[Sequence[int]], Span]) -> Weak:
    """Nested lists of numbers as a tensor that takes its element type from what it meets, as a
    number does. `place` gives the place of a part. Raises Fault.
    """
    shape = _shape(data, place, ())
    flat = list(_elements(data, ()))
    if len(flat) > MOST:
        problem = f"a list of {len(flat):,} numbers; an expression has at most {MOST:,}"
        hint = "{op: constant, value: …}, or {op: constant, type: …} and the weights file"
        raise Fault("XL4019", problem, place(()), hint)
    if not flat:
        hint = "zeros([0], dtype=…) is empty, and has a type"
        raise Fault("XL2006", "an empty list has no element type", place(()), hint)
    kinds = {type(value) for _, value in flat}
    if bool in kinds and len(kinds) > 1:
        at = next(at for at, value in flat if type(value) is not type(flat[0][1]))
        raise Fault("XL2006", "a list holds numbers only, or true and false only", place(at))
    kind = bool if bool in kinds else float if float in kinds else int

    def made(dtype: DType) -> Node:
        for at, value in flat:
            if not _fits(value, dtype):
                check_room(value, dtype, place(at))
                raise Fault("XL2006", f"{value} does not fit {dtype}", place(at))
        wide = np.array([value for _, value in flat], _exact(dtype)).reshape(shape)
        with np.errstate(all="ignore"):
            array = wide.astype(dtype.compute.numpy).astype(dtype.numpy)
        array.flags.writeable = False
        constant = Node.of(Const(array))
        evaluator.context.stamp([constant], Origin(evaluator.path, place(())))
        return constant

    return Weak(kind, made)


def _exact(dtype: DType) -> Any:
    """The NumPy type that holds numbers before they are rounded to a type."""
    return dtype.numpy if dtype.is_integer or dtype is DType.BOOL else np.float64


def _elements(data: Any, at: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The numbers of nested lists, each with its place in them."""
    if not isinstance(data, list):
        yield at, data
        return
    for number, part in enumerate(data):
        yield from _elements(part, (*at, number))


def _shape(
    data: Any, place: Callable[[Sequence[int]], Span], at: tuple[int, ...]
) -> tuple[int, ...]:
    """The extents of nested lists of equal lengths. Raises Fault for others, and for what is no
    number.
    """
    if not isinstance(data, list):
        if not isinstance(data, int | float):
            raise Fault("XL2006", f"a list holds numbers, and not {data!r}", place(at))
        return ()
    shapes = [_shape(part, place, (*at, number)) for number, part in enumerate(data)]
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            problem = f"lists in a list have equal lengths: {_told(shapes[0])}, {_told(shape)}"
            raise Fault("XL2006", problem, place((*at, number)))
    return (len(data), *(shapes[0] if shapes else ()))


def _told(shape: tuple[int, ...]) -> str:
    return f"{list(shape)}" if shape else "a number"


def _fits(value: float, dtype: DType) -> bool:
    """Whether an element type has a number; of floats, one near it."""
    if dtype.is_float:
        return not beyond(value, dtype)
    if dtype.is_integer and isinstance(value, int):
        info = np.iinfo(dtype.numpy)
        return bool(info.min <= value <= info.max)
    return isinstance(value, bool)
