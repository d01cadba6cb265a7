"""Access analysis of a group: a dry run over symbolic indices that finds the strides of every
access.

Lowerings use it to choose loops: adjacent axes that every access traverses contiguously are merged
into one loop, and the axis along which most accesses are contiguous becomes the vector axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

from xlac.codegen.core.addressing import loaded
from xlac.codegen.core.elements import Elements
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion import cost
from xlac.fusion.group import open_sizes
from xlac.ir.dims import Dim, Shape, Sym, size_hint, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Assign,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    Let,
    Load,
    Ramp,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Var,
)


@dataclass(frozen=True, slots=True)
class ElementAccess:
    """One load or store: its element stride along each axis; `opaque` are axes along which the
    address is not affine.

    Strides that depend on the kernel's sizes are expressions; equal ones have the same form.
    """

    buffer: Buffer
    strides: tuple[int | Expr, ...]
    offset: int | Expr
    opaque: frozenset[int]


@dataclass(frozen=True, slots=True)
class Survey:
    """Cost and accesses of one element of a group's work. `opaque` are axes whose counter is used
    as a value.
    """

    accesses: tuple[ElementAccess, ...]
    opaque: frozenset[int]
    statements: int
    flops: int
    dtypes: frozenset[DType]

    def exact(self, buffer: Buffer) -> list[ElementAccess]:
        """The accesses of one buffer."""
        return [a for a in self.accesses if a.buffer is buffer]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Adjacent axes merged into one loop. Compared by identity."""

    extent: Dim
    axes: tuple[int, ...]

    @property
    def usual(self) -> int:
        """The extent to optimise for."""
        return size_hint(self.extent)


def axes_of(shape: Sequence[Dim]) -> Index:
    """One symbolic counter for each axis; the constant 0 for an axis of extent 1."""
    return tuple(_counter(a, n) if n != 1 else build.index(0) for a, n in enumerate(shape))


def _counter(axis: int, extent: Dim) -> Var:
    below = build.lift(extent) if isinstance(extent, Sym) else None
    return Var(f"axis{axis}", build.INDEX, low=0, high=upper_bound(extent) - 1, below=below)


class Surveyor:
    """Performs a dry run: reads and stores elements symbolically, then reports the accesses.
    `elements` may be bound before use.
    """

    def __init__(self, group: Elements, shape: Shape) -> None:
        self.elements = Elements(Builder(), group.group, group.target, dry=True)
        self.shape = tuple(shape)
        self.index = axes_of(shape)
        self._axis = {v: a for a, v in enumerate(self.index) if isinstance(v, Var)}
        self._sizes = {build.lift(size) for size in open_sizes(group.group)}

    def read(self, node: Node, index: Index | None = None) -> None:
        """Reads an element, at an index or at the axes' counters."""
        self.elements.at(node, self.index if index is None else index)

    def store(self, node: Node, index: Index | None = None) -> None:
        """Stores an element of an output, at an index or at the axes' counters."""
        self.elements.store(node, self.index if index is None else index)

    def survey(self) -> Survey:
        """The cost and accesses of everything read and stored so far."""
        scan = _Scan(len(self.shape), self._axis, self._sizes)
        for stmt in self.elements.builder.body():
            scan.statement(stmt)
        return scan.survey()


class _Scan:
    """Walks the statements of a dry run, and computes the strides of every access."""

    def __init__(self, rank: int, axis: Mapping[Var, int], sizes: AbstractSet[Expr]) -> None:
        self.rank, self.axis, self.sizes = rank, axis, sizes
        self.depends = {f"axis{a}": frozenset({a}) for a in range(rank)}
        self.accesses: list[ElementAccess] = []
        self.opaque: set[int] = set()
        self.flops = self.statements = 0
        self.dtypes: set[DType] = set()

    def survey(self) -> Survey:
        """The result."""
        return Survey(
            tuple(self.accesses),
            frozenset(self.opaque),
            self.statements,
            self.flops,
            frozenset(self.dtypes),
        )

    def statement(self, stmt: Stmt) -> None:
        """Processes one statement."""
        self.statements += 1
        match stmt:
            case Let(var, value) | Assign(var, value):
                self.depends[var.name] = self._scan(value)
            case Store(buffer=buffer, index=index, value=value):
                self._scan(value)
                self.accesses.append(self._address(buffer, index))

    def _scan(self, expr: Expr) -> frozenset[int]:
        """The axes that an expression depends on; loads inside it are recorded."""
        match expr:
            case Const():
                return frozenset()
            case Var(name=name):
                self.opaque.update({self.axis[expr]} if expr in self.axis else ())
                return self.depends.get(name, frozenset())
            case Load(buffer=buffer, index=index):
                self.dtypes.add(buffer.dtype)
                access = self._address(buffer, index)
                self.accesses.append(access)
                return access.opaque | {a for a, s in enumerate(access.strides) if s != 0}
            case Apply(primitive=primitive, operands=operands):
                self.flops += cost.WEIGHTS.get(primitive, 1)
                if expr.dtype is not build.INDEX or loaded(operands):
                    self.dtypes.add(expr.dtype)
                return frozenset().union(*map(self._scan, operands))
            case Ramp(base=value) | Splat(value=value) | Fold(value=value) | Exchange(value=value):
                return self._scan(value)
            case Shuffle(values=values):
                return frozenset().union(*map(self._scan, values))

    def _address(self, buffer: Buffer, index: Expr) -> ElementAccess:
        """The strides of an access along each axis."""
        strides = [build.Terms() for _ in range(self.rank)]
        constant, unknown = build.Terms(), frozenset[int]()
        for term, factor in build.terms(index).items():
            parts = build.factors(term)
            moving = [part for part in parts if part not in self.sizes]
            if not moving:
                constant[term] = factor
            elif len(moving) == 1 and isinstance(moving[0], Var) and moving[0] in self.axis:
                parts.remove(moving[0])
                strides[self.axis[moving[0]]][build.joined(parts)] = factor
            else:
                unknown |= self._inner(term)
        return ElementAccess(buffer, tuple(map(_stride, strides)), _stride(constant), unknown)

    def _inner(self, term: Expr) -> frozenset[int]:
        """The axes inside a non-affine part of an address, which is not a value of its own."""
        match term:
            case Var(name=name):
                return self.depends.get(name, frozenset())
            case Apply(operands=operands):
                return frozenset().union(*map(self._inner, operands))
            case Load(buffer=buffer, index=index):
                return self._scan(Load(buffer, index))
        return frozenset()


def _stride(parts: build.Terms) -> int | Expr:
    """A sum of sizes with its terms in canonical order; a number if it is constant."""
    known = build.total({term: parts[term] for term in sorted(parts, key=str)})
    return int(known.value) if isinstance(known, Const) else known


def runs(shape: Shape, survey: Survey, apart: Iterable[int] = ()) -> list[Run]:
    """The axes of more than one element, with adjacent ones merged if every access traverses them
    contiguously.

    `apart` are axes that are not merged with the axis before them.
    """
    merged: list[Run] = []
    bound, last = set(apart), -1
    moved = {a for a, n in enumerate(shape) if n != 1}
    for axis in sorted(moved):
        crossing = any(b in range(last + 1, axis + 1) for b in bound)
        if merged and not crossing and _as_one(merged[-1].axes[-1], axis, shape[axis], survey):
            merged[-1] = Run(merged[-1].extent * shape[axis], (*merged[-1].axes, axis))
        else:
            merged.append(Run(shape[axis], (axis,)))
        last = axis
    return merged


def merged(shape: Shape, survey: Survey, wanted: Sequence[Sequence[int]]) -> list[Run]:
    """Loops that merge the given lists of axes. Raises Misfit unless these are all axes of more
    than one element in order, and those of each list can be merged.
    """
    every = [a for a, n in enumerate(shape) if n != 1]
    if [a for axes in wanted for a in axes] != every or not all(wanted):
        raise Misfit(("loops",), f"the axes of all loops are {every}, in this order")
    for number, axes in enumerate(wanted):
        for before, axis in pairwise(axes):
            if not _as_one(before, axis, shape[axis], survey):
                raise Misfit(
                    ("loops", number),
                    f"axes {before} and {axis} cannot be merged: an access does not traverse them "
                    "contiguously",
                )
    return [Run(_extent(shape, axes), tuple(axes)) for axes in wanted]


def _extent(shape: Shape, axes: Sequence[int]) -> Dim:
    return volume(tuple(shape[axis] for axis in axes))


def _as_one(before: int, axis: int, extent: Dim, survey: Survey) -> bool:
    if before in survey.opaque or axis in survey.opaque or not extent:
        return False
    return all(
        _times(a.strides[axis], extent) == a.strides[before] and not a.opaque & {before, axis}
        for a in survey.accesses
    )


def _times(stride: int | Expr, extent: Dim) -> int | Expr:
    if isinstance(stride, int) and isinstance(extent, int):
        return stride * extent
    return _stride(build.terms(build.mul(stride, extent)))


def contiguous(run: Run, survey: Survey, shape: Shape) -> int:
    """The number of elements reached by accesses with stride 1 along the run's last axis."""
    axis = run.axes[-1]
    adjacent = [a for a in survey.accesses if a.strides[axis] == 1 and axis not in a.opaque]
    return sum(
        size_hint(
            volume(tuple(n for b, n in enumerate(shape) if a.strides[b] != 0 or b in a.opaque))
        )
        for a in adjacent
    )


def strided(run: Run, survey: Survey) -> int:
    """The number of accesses with a stride other than 0 and 1 along the run's last axis."""
    axis = run.axes[-1]
    return sum(a.strides[axis] not in (0, 1) or axis in a.opaque for a in survey.accesses)


def expand(counters: Mapping[Run, Expr], shape: Shape) -> Index:
    """The index with an entry for each axis, from counters of merged loops; axes of one element are
    0.
    """
    entries: list[Expr] = [build.index(0)] * len(shape)
    for run, counter in counters.items():
        for axis in reversed(run.axes[1:]):
            entries[axis] = build.mod(counter, shape[axis])
            counter = build.div(counter, shape[axis])
        entries[run.axes[0]] = counter
    return tuple(entries)
