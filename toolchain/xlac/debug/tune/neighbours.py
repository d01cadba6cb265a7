"""The schedules next to one: each differs in one field. Most of them no group can have; the check
of its lowering refuses those.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from xlac.codegen.schedules.schedule import Misfit, Schedule, from_data, kinds, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac_sdk.dtypes import DType

Field = tuple[str, ...]
"""The names of the fields that lead to a value; places in lists are left out."""

Numbers = Callable[[int], Iterable[int]]
"""Other values for a number."""

ORDERS = ((0, 1), (1, 0), (0, 1, 2, 3), (1, 0, 3, 2), (2, 0, 1, 3))  # of axes


def near(number: int) -> list[int]:
    """Numbers near one: its double and half, the next ones, four times and a quarter of it."""
    steps = (number * 2, number // 2, number + 1, number - 1, number * 4, number // 4)
    return [n for n in dict.fromkeys(steps) if n != number and n >= 0]


def neighbours(
    schedule: Schedule, numbers: Numbers = near, among: Collection[Field] | None = None
) -> Iterator[tuple[Field, Schedule]]:
    """Every well-formed schedule that differs from one in a single value, with the field; only
    those of the fields in `among`, if it is given. Numbers become what `numbers` gives.
    """
    for field, data in _of_fields(type(schedule), to_data(schedule), numbers):
        try:
            if among is None or field in among:
                yield field, from_data(data, TEMPLATES)
        except Misfit:
            continue


def _of_fields(
    of: type, data: Mapping[str, Any], numbers: Numbers
) -> Iterator[tuple[Field, dict[str, Any]]]:
    for name, kind in kinds(of).items():
        for field, value in _values(kind, data[name], numbers):
            yield (name, *field), {**data, name: value}


def _values(kind: Any, data: Any, numbers: Numbers) -> Iterator[tuple[Field, Any]]:
    """Other values of a field of some type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (a for a in arguments if a is not NoneType)
        if data is not None:
            yield (), None
            yield from _values(inner, data, numbers)
        else:
            yield from (((), value) for value in _invented(inner))
    elif origin is Annotated or kind is int:
        yield from (((), n) for n in numbers(data) if n != data)
    elif origin is Literal:
        yield from (((), word) for word in arguments if word != data)
    elif kind is bool:
        yield (), not data
    elif kind is DType:
        yield from (((), d.value) for d in _alike(DType(data)) if d.value != data)
    elif is_dataclass(kind):
        yield from _of_fields(kind, data, numbers)  # type: ignore[arg-type]
    elif origin is tuple:
        yield from _lists(arguments, data, numbers)


def _alike(dtype: DType) -> tuple[DType, ...]:
    """The types of the same kind: of floats, or of words of bytes."""
    floats = (DType.F32, DType.F16, DType.BF16)
    return floats if dtype.is_float else (DType.I32, DType.I64)


def _lists(
    arguments: Sequence[Any], data: Sequence[Any], numbers: Numbers
) -> Iterator[tuple[Field, Any]]:
    """Other lists: an element changed, and where any number of elements is allowed also their
    order, one left out, and axes that are merged or split.
    """
    each = tuple(arguments[:1]) * len(data) if arguments[-1] is Ellipsis else arguments
    for place, (inner, value) in enumerate(zip(each, data, strict=True)):
        for field, other in _values(inner, value, numbers):
            yield field, [*data[:place], other, *data[place + 1 :]]
    if get_origin(arguments[0]) is tuple:  # loops of merged axes
        yield from (((), loops) for loops in _regrouped(data))
    elif arguments[-1] is Ellipsis:
        yield from (((), order) for order in _reordered(data))
        for place in range(len(data)):
            yield (), [*data[:place], *data[place + 1 :]]


def _invented(kind: Any) -> Iterator[Any]:
    """Some values for a field that is null."""
    yield from (0, 1) if get_origin(kind) is Annotated else ()
    if get_origin(kind) is tuple:
        yield from ORDERS
    if is_dataclass(kind) and "order" in kinds(kind):  # type: ignore[arg-type]
        yield from ({"dtype": "f32", "order": order} for order in ORDERS)
    elif is_dataclass(kind):
        for across in (0, 1):
            for flag in (False, True):
                words = {int: across, bool: flag}
                yield {
                    name: words.get(part, 16 if name in ("side", "pitch") else across)
                    for name, part in kinds(kind).items()  # type: ignore[arg-type]
                }


def _regrouped(loops: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    """One loop split in two, or two adjacent ones merged."""
    for place, axes in enumerate(loops):
        for cut in range(1, len(axes)):
            yield [*loops[:place], axes[:cut], axes[cut:], *loops[place + 1 :]]
        if place:
            yield [*loops[: place - 1], [*loops[place - 1], *axes], *loops[place + 1 :]]


def _reordered(items: Sequence[Any]) -> Iterator[list[Any]]:
    """Two elements exchanged."""
    for one in range(len(items)):
        for other in range(one):
            exchanged = list(items)
            exchanged[one], exchanged[other] = items[other], items[one]
            yield exchanged
