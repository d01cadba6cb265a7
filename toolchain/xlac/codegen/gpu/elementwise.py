"""Elementwise groups on a GPU: a thread takes a few vectors as wide as its widest access, a block
apart from each other.

Neighbouring threads touch neighbouring vectors, so a warp's accesses are whole cache lines. All
values of a thread are loaded before any is stored, which keeps enough loads under way. Nests of
several shapes (the pieces of a concatenation, say) share a launch: each has a range of the blocks.
Transpositions are in `transpose.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlac.codegen.core.access_analysis import Run, Survey, Surveyor, expand, runs, strided
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.elementwise import Job, jobs, overwritten, store
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.gpu import transpose
from xlac.codegen.gpu.core.grid import (
    RESIDENT,
    GridThread,
    grid,
    power_of_two,
    threads_for,
    unravelled,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, Shape, ceil_div, divisor, size_hint, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive
IN_FLIGHT = 64  # bytes that a thread should be waiting for
MOST_NESTS = 16  # in one launch


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch, or a few where there are very many shapes."""
    nests: list[_Nest] = []
    launches: list[KernelLaunch] = []
    in_place: list[tuple[Node, Node]] = []
    wanted = [job for job in jobs(group) if volume(job.shape) != 0]
    for job in wanted:
        dry = Surveyor(Elements(Builder(), group, target), job.shape)
        store(dry.elements, dry.index, job.stores, streaming=False)
        survey = dry.survey()
        if len(wanted) == 1:
            in_place = overwritten(dry.elements, survey)
        elements = Elements(Builder(), group, target)
        if transpose.write(elements, dry.elements, job, survey):
            launches.append(
                elements.launch(
                    f"{name}_{len(launches)}" if len(wanted) > 1 else name, cost.work(group)
                )
            )
        else:
            nests.append(_Nest(job, survey, target))
    for first in range(0, len(nests), MOST_NESTS):
        elements = Elements(Builder(), group, target)
        _write(elements, nests[first : first + MOST_NESTS])
        launches.append(
            elements.launch(f"{name}_{len(launches)}" if launches else name, cost.work(group))
        )
    return LoweredGroup(tuple(launches), tuple(in_place))


def _write(elements: Elements, nests: Sequence[_Nest]) -> None:
    """A kernel in which every nest has its blocks."""
    builder = elements.builder
    threads = max(nest.threads for nest in nests)
    counts = [nest.blocks(threads) for nest in nests]
    total: Dim = 0
    for count in counts:
        total = total + count
    with grid(builder, elements.target, total, threads) as here:
        start: Dim = 0
        for nest, count in zip(nests, counts, strict=True):
            with _share(here, start, count, total) as block:
                nest.write(elements, here, block)
            start = start + count


@contextmanager
def _share(here: GridThread, start: Dim, count: Dim, total: Dim) -> Iterator[Expr]:
    """What a range of the blocks does; yields a block's number within it."""
    if count == total:
        yield here.block
        return
    builder, stop = here.builder, start + count
    inside = build.apply(P.LT, here.block, build.lift(stop))
    if start != 0:
        inside = build.apply(P.AND, build.apply(P.LE, build.lift(start), here.block), inside)
    with builder.when(inside):
        yield bounded(builder, build.sub(here.block, start), count - 1)


class _Nest:
    """One shape: how its elements are shared among threads."""

    def __init__(self, job: Job, survey: Survey, target: Target) -> None:
        self.job = job
        self.loops = runs(job.shape, survey)
        self.inner = self.loops[-1] if self.loops else Run(volume(()), ())
        self.lanes = access_lanes(target, survey, self.inner, alone=len(self.loops) == 1)
        # the last vector is cut short
        self.ends_inside = bool(divisor(self.inner.extent) % self.lanes)
        self.vectors = ceil_div(self.inner.extent, self.lanes)
        self.total = volume(tuple(run.extent for run in self.loops[:-1])) * self.vectors
        usual = size_hint(self.total)
        self.copies = _copies(target, survey, self.lanes, usual, job.shape)
        self.threads = threads_for(target, usual)

    def blocks(self, threads: int) -> Dim:
        return ceil_div(self.total, threads * self.copies)

    def write(self, elements: Elements, here: GridThread, block: Expr) -> None:
        """The vectors of one thread: all at once where the whole block has them, else one after
        another as they are there.
        """
        builder, span = here.builder, here.threads * self.copies
        first = builder.let("first", build.add(build.mul(block, span), here.thread))
        if divisor(self.total) % span == 0 and not self.ends_inside:
            self._several(
                elements, [build.add(first, c * here.threads) for c in range(self.copies)]
            )
            return
        if self.copies == 1:
            self._one(elements, first)
            return
        whole = self.total - 1 if self.ends_inside else self.total
        end = builder.let("end", build.mul(build.add(block, 1), span))
        with builder.when(build.apply(P.LE, end, build.lift(whole))):
            self._several(
                elements, [build.add(first, c * here.threads) for c in range(self.copies)]
            )
        with (
            builder.when(build.apply(P.LT, build.lift(whole), end)),
            builder.loop("c", 0, self.copies) as c,
        ):
            self._one(elements, builder.let("n", build.add(first, build.mul(c, here.threads))))

    def _one(self, elements: Elements, number: Expr) -> None:
        """One vector, if it is there; the elements of a last one that is cut short, one by one."""
        builder, extent = elements.builder, self.inner.extent
        whole = self.total if not self.ends_inside else build.div(extent, self.lanes)
        with builder.when(build.apply(P.LT, number, build.lift(whole))):
            self._several(elements, [bounded(builder, number, self.total - 1)])
        if self.ends_inside:
            last = build.apply(P.EQ, number, build.lift(whole))
            with builder.when(last), builder.loop("i", build.mul(whole, self.lanes), extent) as i:
                store(
                    elements,
                    expand({self.inner: i}, self.job.shape),
                    self.job.stores,
                    streaming=False,
                )

    def _several(self, elements: Elements, numbers: Sequence[Expr]) -> None:
        """Vectors by their numbers: every value before any store."""
        at = [self._index(elements.builder, number) for number in numbers]
        for index in at:
            for value, _, _ in self.job.stores:
                elements.at(value, index)
        for index in at:
            store(elements, index, self.job.stores, streaming=False)

    def _index(self, builder: Builder, number: Expr) -> Index:
        if not self.loops:
            return expand({}, self.job.shape)
        outer = self.loops[:-1]
        inner = builder.let("i", build.mod(number, self.vectors)) if outer else number
        counters = unravelled(builder, build.div(number, self.vectors), outer) if outer else {}
        counters[self.inner] = build.ramp(build.mul(inner, self.lanes), 1, self.lanes)
        return expand(counters, self.job.shape)


def access_lanes(target: Target, survey: Survey, inner: Run, *, alone: bool) -> int:
    """Elements of a thread's vectors along a run: what its widest access takes at once, all of them
    aligned.

    A run that is alone may end with a vector that is cut short.
    """
    if not inner.axes or strided(inner, survey):
        return 1
    axis = inner.axes[-1]
    moving = [a for a in survey.accesses if a.strides[axis] == 1 or axis in a.opaque]
    widest = max((a.buffer.dtype.nbytes for a in moving), default=1)
    lanes = power_of_two(min(max(1, target.access_bytes // widest), size_hint(inner.extent)))
    apart = [inner.extent] if not alone else []
    steps = [s for a in moving for b, s in enumerate((*a.strides, a.offset)) if b not in inner.axes]
    while lanes > 1 and any(divisor(n) % lanes for n in apart) | any(
        build.multiple(build.lift(s)) % lanes for s in steps
    ):
        lanes //= 2
    return lanes


def _copies(target: Target, survey: Survey, lanes: int, vectors: int, shape: Shape) -> int:
    """Vectors of a thread: enough to wait for, as long as there are threads enough."""
    written = {a.buffer for a in survey.accesses if a.buffer.access.value != "read"}
    each = sum(a.buffer.dtype.nbytes for a in survey.accesses if a.buffer not in written) * lanes
    wanted = (
        power_of_two(max(1, min(4, IN_FLIGHT // max(1, each)))) if survey.statements <= 40 else 1
    )
    while wanted > 1 and vectors < wanted * RESIDENT * max(1, target.processors):
        wanted //= 2
    return wanted
