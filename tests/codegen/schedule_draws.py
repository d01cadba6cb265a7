"""Schedules drawn at random around the one that was chosen: a field or a few are changed, and what
the group cannot have is refused by its own check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from contraction_harness import group, param

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions, PartMisfit
from xlac.codegen.schedules.schedule import Misfit, Schedule, from_data, kinds, to_data
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import For, LoopKind, Stmt, children
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.target import Target

NUMBERS = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 48, 64, 128, 256, 512)

ORDERS = ((0, 1), (1, 0), (0, 1, 2, 3), (1, 0, 3, 2), (2, 0, 1, 3))  # of axes

Parts = Mapping[str, Schedule]
Field = tuple[str, ...]
"""The names of fields that lead to a value, places in lists left out."""


def x(name: str, *shape: int, dtype: DType = DType.F32, kind: str = "input") -> Node:
    return param(name, Type(dtype, shape), kind)


@dataclass(frozen=True)
class Drawn:
    """A group whose schedules are drawn, of some templates; `exact` where no schedule changes what
    is rounded.
    """

    made: Callable[[], Group]
    target: Target
    templates: str
    exact: bool = False
    runs: bool = True  # in the interpreter, in a second
    instead: Mapping[str, object] | None = None  # of what would be chosen for a large group
    schedules: int = 4  # that a test runs
    starts: tuple[Mapping[str, object], ...] = ()  # values of fields beside which others matter


def matmul(m: int, n: int, k: int, turned: bool = False, kind: str = "input") -> Node:
    b = x("b", *((n, k) if turned else (k, n)), kind=kind)
    return Node.of(Dot(contract_lhs=(1,), contract_rhs=(int(turned),)), x("a", m, k), b)


def dot(m: int, n: int, k: int, turned: bool = False, kind: str = "input") -> Callable[[], Group]:
    return lambda: group(Kind.DOT, matmul(m, n, k, turned, kind))


def lowered(made: Group, target: Target, asked: Parts | None = None) -> LoweredGroup | None:
    """The group lowered by these schedules, which it then has; None where it cannot have them."""
    decisions = Decisions("kernel", asked or {})
    try:
        found = lower(made, target, "kernel", decisions)
    except PartMisfit:
        return None
    if set(asked or {}) - set(decisions.settled):
        return None
    return replace(found, schedules=decisions.settled)


def text(found: LoweredGroup) -> str:
    """All kernels of a group, those that go backward too, with the grains of loops."""
    made = [launch.kernel for launch in found.launches]
    made += [launch.backward() for launch in found.launches if launch.backward]
    return "\n".join(f"{show(kernel)}\n{list(_grains(kernel.body))}" for kernel in made)


def _grains(block: Sequence[Stmt]) -> Iterator[int]:
    for stmt in block:
        if isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL:
            yield stmt.grain
        for inner in children(stmt):
            yield from _grains(inner)


def neighbours(
    made: Schedule, among: frozenset[Field] | None = None
) -> Iterator[tuple[Field, Schedule]]:
    """Every schedule that differs in one value, most of which no group can have, and the field."""
    for field, data in _of_fields(type(made), to_data(made)):
        try:
            if among is not None and field not in among:
                continue
            yield field, from_data(data, TEMPLATES)
        except Misfit:
            continue


def drawn(made: Schedule, rng: Random, changes: int) -> Schedule:
    """A schedule that differs in a few values."""
    for _ in range(changes):
        near = list(neighbours(made))
        field = rng.choice(sorted({f for f, _ in near}))
        made = rng.choice([s for f, s in near if f == field])
    return made


def _of_fields(of: type, data: dict[str, Any]) -> Iterator[tuple[Field, dict[str, Any]]]:
    for name, kind in kinds(of).items():
        for field, value in _values(kind, data[name]):
            yield (name, *field), {**data, name: value}


def _values(kind: Any, data: Any) -> Iterator[tuple[Field, Any]]:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        (inner,) = (a for a in arguments if a is not NoneType)
        if data is not None:
            yield (), None
            yield from _values(inner, data)
        else:
            yield from (((), value) for value in _whole(inner))
    elif origin is Annotated or kind is int:
        yield from (((), n) for n in NUMBERS if n != data)
    elif origin is Literal:
        yield from (((), word) for word in arguments if word != data)
    elif kind is bool:
        yield (), not data
    elif kind is DType:
        yield from (((), d.value) for d in (DType.F32, DType.F16, DType.BF16) if d.value != data)
    elif is_dataclass(kind):
        yield from _of_fields(kind, data)  # type: ignore[arg-type]
    elif origin is tuple:
        each = arguments[:1] * len(data) if arguments[-1] is Ellipsis else arguments
        for place, (inner, value) in enumerate(zip(each, data, strict=True)):
            for field, other in _values(inner, value):
                yield field, [*data[:place], other, *data[place + 1 :]]
        if get_origin(arguments[0]) is tuple:  # loops of merged axes
            yield from (((), loops) for loops in _regrouped(data))
        elif arguments[-1] is Ellipsis:
            yield from (((), order) for order in _reordered(data))
            for place in range(len(data)):
                yield (), [*data[:place], *data[place + 1 :]]


def _whole(kind: Any) -> Iterator[Any]:
    """Some values of what is not there."""
    yield from (0, 1) if get_origin(kind) is Annotated else ()
    if get_origin(kind) is tuple:
        yield from ORDERS
    if is_dataclass(kind) and "order" in kinds(kind):
        yield from ({"dtype": "f32", "order": order} for order in ORDERS)
    elif is_dataclass(kind):
        for across in (0, 1):
            for flag in (False, True):
                words = {int: across, bool: flag}
                yield {
                    name: words.get(part, 16 if name in ("side", "pitch") else across)  # type: ignore[call-overload]
                    for name, part in kinds(kind).items()  # type: ignore[arg-type]
                }


def _regrouped(loops: list[list[int]]) -> Iterator[list[list[int]]]:
    """One loop split in two, or two neighbours made one."""
    for place, axes in enumerate(loops):
        for cut in range(1, len(axes)):
            yield [*loops[:place], axes[:cut], axes[cut:], *loops[place + 1 :]]
        if place:
            yield [*loops[: place - 1], loops[place - 1] + axes, *loops[place + 1 :]]


def _reordered(items: list[Any]) -> Iterator[list[Any]]:
    """Two of them changed round."""
    for one in range(len(items)):
        for other in range(one):
            found = list(items)
            found[one], found[other] = items[other], items[one]
            yield found


def every_field(of: type, before: Field = ()) -> Iterator[Field]:
    """All fields of a template that hold values."""
    for name, kind in kinds(of).items():
        yield from _inside(kind, (*before, name))


def _inside(kind: Any, path: Field) -> Iterator[Field]:
    if is_dataclass(kind):
        yield from every_field(kind, path)  # type: ignore[arg-type]
    elif get_origin(kind) in (Union, UnionType, tuple):
        (inner, *_) = (a for a in get_args(kind) if a not in (NoneType, Ellipsis))
        if get_origin(kind) is tuple or not is_dataclass(inner):
            yield from _inside(inner, path) if get_origin(inner) is not tuple else [path]
        else:
            yield from every_field(inner, path)  # type: ignore[arg-type]
    else:
        yield path
