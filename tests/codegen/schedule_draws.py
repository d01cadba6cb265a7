"""Schedules drawn at random around the one that was chosen: a field or a few are changed, and what
the group cannot have is refused by its own check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from random import Random
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from contraction_harness import group, param

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions, PartMisfit
from xlac.codegen.schedules.schedule import Schedule, kinds
from xlac.debug.tune.neighbours import Field
from xlac.debug.tune.neighbours import neighbours as next_to
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.window import Window
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import For, LoopKind, Stmt, children
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.target import Target

NUMBERS = (0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 48, 64, 128, 256, 512)

Parts = Mapping[str, Schedule]


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


def greatest_of_windows(
    shape: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...]
) -> Group:
    """The maxima of windows that hang over both ends of the second of three axes by one element."""
    ones, edge = (1, 1, 1), (0, 1, 0)
    op = Window(
        combine="max",
        window=window,
        strides=strides,
        low=edge,
        high=edge,
        base_dilation=ones,
        window_dilation=ones,
    )
    return group(Kind.WINDOW, Node.of(op, x("x", *shape)))


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
    return next_to(made, lambda number: NUMBERS, among)


def drawn(made: Schedule, rng: Random, changes: int) -> Schedule:
    """A schedule that differs in a few values."""
    for _ in range(changes):
        near = list(neighbours(made))
        field = rng.choice(sorted({f for f, _ in near}))
        made = rng.choice([s for f, s in near if f == field])
    return made


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
