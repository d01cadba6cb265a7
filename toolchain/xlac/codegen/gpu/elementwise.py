"""Elementwise groups on a GPU: a thread processes a few vectors as wide as its widest access, a
block apart from each other.

Adjacent threads access adjacent vectors, so a warp accesses whole cache lines. All values of a
thread are loaded before any is stored, which keeps enough loads in flight. Nests of several shapes
(such as the pieces of a concatenation) share a launch: each has a range of the blocks.
Transpositions are in `transpose.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from xlac.codegen.core.access_analysis import Run, Surveyor, expand, merged
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.elementwise import Job, jobs, overwritten, store
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.gpu import transpose
from xlac.codegen.gpu.core.grid import GridThread, grid, unravelled
from xlac.codegen.gpu.elementwise_choice import SurveyedJob, check, choose
from xlac.codegen.schedules.gpu.elementwise import GpuNest
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, ceil_div, divisor, volume
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

P = Primitive


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch, or a few if there are very many shapes."""
    surveyed = [_surveyed(group, target, job) for job in jobs(group) if volume(job.shape) != 0]
    schedule = lower_part.decisions.settle(
        name, choose(surveyed, target), partial(check, jobs=surveyed, target=target)
    )
    launches: list[KernelLaunch] = []
    nests: list[_Nest] = []
    for one, how in zip(surveyed, schedule.nests, strict=True):
        if how.tile is None:
            nests.append(_Nest(one, how))
            continue
        elements = Elements(Builder(), group, target)
        transpose.Tiles(elements, one, how, how.tile).write()
        alone = name if len(surveyed) == 1 else f"{name}_{len(launches)}"
        launches.append(elements.launch(alone, cost.work(group)))
    for first in range(0, len(nests), schedule.nests_per_kernel):
        elements = Elements(Builder(), group, target)
        _write(elements, nests[first : first + schedule.nests_per_kernel])
        launches.append(
            elements.launch(f"{name}_{len(launches)}" if launches else name, cost.work(group))
        )
    in_place = overwritten([(one.dry, one.survey) for one in surveyed])
    return LoweredGroup(tuple(launches), tuple(in_place))


def _surveyed(group: Group, target: Target, job: Job) -> SurveyedJob:
    dry = Surveyor(Elements(Builder(), group, target), job.shape)
    store(dry.elements, dry.index, job.stores, streaming=False)
    return SurveyedJob(job, dry.elements, dry.survey())


def _write(elements: Elements, nests: Sequence[_Nest]) -> None:
    """A kernel in which every nest has its own blocks."""
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
    """A scope for a range of the blocks; yields a block's number within the range."""
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
    """One nest: the distribution of its elements over threads."""

    def __init__(self, one: SurveyedJob, how: GpuNest) -> None:
        self.job, self.lanes, self.copies, self.threads = (
            one.job,
            how.lanes,
            how.copies,
            how.threads,
        )
        self.loops = merged(one.job.shape, one.survey, how.loops)
        self.inner = self.loops[-1] if self.loops else Run(volume(()), ())
        # the last vector is partial
        self.ends_inside = bool(divisor(self.inner.extent) % self.lanes)
        self.vectors = ceil_div(self.inner.extent, self.lanes)
        self.total = volume(tuple(run.extent for run in self.loops[:-1])) * self.vectors

    def blocks(self, threads: int) -> Dim:
        return ceil_div(self.total, threads * self.copies)

    def write(self, elements: Elements, here: GridThread, block: Expr) -> None:
        """The vectors of one thread: all at once if the whole block is inside, else one after
        another with bounds checks.
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
        """One vector, if it is inside; the elements of a partial last vector one by one."""
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
        """Vectors by their numbers: all values are computed before any store."""
        at = [self._index(elements.builder, number) for number in numbers]
        for index in at:
            for one in self.job.stores:
                elements.at(one.value, index)
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
