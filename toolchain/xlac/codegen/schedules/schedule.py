"""Schedules: the decisions of a lowering for a kernel, as a frozen dataclass of plain values.

There is one class for each kernel template. Fields are booleans, numbers, keywords, element types,
other such classes, tuples of these, and None where a field allows it; so each schedule can be
written as plain data (`to_data`), and plain data is parsed to a schedule (`from_data`) or gives the
reason why it is invalid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from xlac_sdk.dtypes import DType
from xlac_sdk.support.choices import nearest

Path = tuple[str | int, ...]
"""The path of fields and list indices that leads to a value inside a schedule."""


class Misfit(Exception):
    """A schedule that cannot be used: `path` leads to the field, the message gives the reason."""

    def __init__(self, path: Path, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.path, self.problem, self.hint = path, problem, hint


@dataclass(frozen=True, slots=True)
class Least:
    """The minimum of an integer field."""

    value: int


Positive = Annotated[int, Least(1)]
Natural = Annotated[int, Least(0)]


@dataclass(frozen=True, slots=True)
class Part:
    """A group of fields that several templates share, or that one has several times."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The decisions for one kernel template, or for several that depend on each other."""

    template: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Threads(Part):
    """How threads share a loop nest: the iterations of its `loops` outermost loops, at least
    `grain` of them at once. With 0 loops, one thread runs all of it.
    """

    loops: Natural
    grain: Positive = 1


SERIAL = Threads(0)


def to_data(value: Any) -> Any:
    """A schedule, or a value inside one, as mappings, lists, numbers, booleans,
    strings and None.
    """
    if isinstance(value, DType):
        return value.value
    if is_dataclass(value):
        data = {f.name: to_data(getattr(value, f.name)) for f in fields(value)}
        return {"template": value.template, **data} if isinstance(value, Schedule) else data
    return [to_data(part) for part in value] if isinstance(value, tuple) else value


def from_data(data: Any, templates: Mapping[str, type[Schedule]]) -> Schedule:
    """The schedule from plain data. Raises Misfit for an unknown template or field, a missing
    field, and an invalid value.
    """
    if not isinstance(data, Mapping):
        raise Misfit((), f"a schedule must be a mapping, not {_described(data)}")
    name = data.get("template")
    if name is None:
        raise Misfit(
            (), "a schedule must name its template", f"one of {', '.join(sorted(templates))}"
        )
    if not isinstance(name, str) or name not in templates:
        raise Misfit(("template",), f"there is no template {name!r}", nearest(str(name), templates))
    rest = {key: value for key, value in data.items() if key != "template"}
    schedule = _made(templates[name], rest, ())
    assert isinstance(schedule, Schedule)
    return schedule


@cache
def kinds(of: type) -> dict[str, Any]:
    """The types of the fields of a schedule or a part, by name, in order."""
    hints = get_type_hints(of, include_extras=True)
    return {f.name: hints[f.name] for f in fields(of)}


def _made(of: type, data: Any, path: Path) -> Any:
    if not isinstance(data, Mapping):
        raise Misfit(
            path, f"{_word(of)} must be a mapping of {', '.join(kinds(of))}, not {_described(data)}"
        )
    for key in data:
        if key not in kinds(of):
            raise Misfit(
                (*path, key), f"{_word(of)} has no field {key!r}", nearest(str(key), kinds(of))
            )
    missing = [name for name in kinds(of) if name not in data]
    if missing:
        raise Misfit(path, f"{_word(of)} lacks {', '.join(missing)}", "every field is required")
    return of(**{name: _read(kind, data[name], (*path, name)) for name, kind in kinds(of).items()})


def _read(kind: Any, data: Any, path: Path) -> Any:
    """The value of a field of some type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if data is None and NoneType in arguments:
            return None
        (kind,) = (a for a in arguments if a is not NoneType)
        return _read(kind, data, path)
    if origin is Annotated:
        number, (least,) = _read(arguments[0], data, path), arguments[1:]
        if number < least.value:
            raise Misfit(path, f"{path[-1]} must be at least {least.value}, not {number}")
        return number
    if origin is Literal:
        if type(data) is not str or data not in arguments:
            words = ", ".join(map(str, arguments))
            raise Misfit(path, f"{path[-1]} must be one of {words}, not {_described(data)}")
        return data
    if origin is tuple:
        return _tuple(arguments, data, path)
    if kind is DType:
        if data not in [d.value for d in DType]:
            raise Misfit(path, f"{path[-1]} must be an element type, not {_described(data)}")
        return DType(data)
    if is_dataclass(kind):
        return _made(kind, data, path)  # type: ignore[arg-type]
    if type(data) is not kind:
        raise Misfit(path, f"{path[-1]} must be {WORDS[kind]}, not {_described(data)}")
    return data


def _tuple(arguments: Sequence[Any], data: Any, path: Path) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise Misfit(path, f"{path[-1]} must be a list, not {_described(data)}")
    if arguments[-1] is Ellipsis:
        return tuple(_read(arguments[0], part, (*path, n)) for n, part in enumerate(data))
    if len(data) != len(arguments):
        raise Misfit(path, f"{path[-1]} must be a list of {len(arguments)}, not of {len(data)}")
    return tuple(
        _read(kind, part, (*path, n))
        for n, (kind, part) in enumerate(zip(arguments, data, strict=True))
    )


WORDS = {int: "a whole number", bool: "true or false", str: "a word"}


def _word(of: type) -> str:
    return f"template {of.template}" if issubclass(of, Schedule) else of.__name__.lower()


def _described(data: Any) -> str:
    words = {NoneType: "nothing", dict: "a mapping", list: "a list"}
    return words.get(type(data), repr(data))
