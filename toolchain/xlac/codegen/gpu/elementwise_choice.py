"""Chooses the threads and blocks of elementwise groups on a GPU, and which nests are tiled
transpositions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import ElementAccess, Run, Survey, merged, runs
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.elementwise import Job
from xlac.codegen.core.strip_mining import DEEP
from xlac.codegen.gpu.core.access_width import access_lanes, check_lanes
from xlac.codegen.gpu.core.grid import (
    RESIDENT,
    check_shared,
    check_threads,
    power_of_two,
    threads_for,
)
from xlac.codegen.schedules.gpu.elementwise import GpuElementwiseSchedule, GpuNest, TransposedTile
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion.group import is_immediate
from xlac.ir.dims import ceil_div, divisor, size_hint, volume
from xlac.ir.graph import Node
from xlac_sdk.target import Target

IN_FLIGHT = 64  # bytes of a thread's loads in flight, where it computes little
MOST_NESTS = 16  # nests in one launch
MOST_COPIES = 16  # vectors of a thread
ROWS = 8  # warps of a block that transposes a tile
WORD = 4  # bytes of a bank of SHARED memory
LEAST = 16  # elements along both axes from which a tile pays


@dataclass(frozen=True, slots=True)
class SurveyedJob:
    """One nest, and its access analysis."""

    job: Job
    dry: Elements  # the elements of the dry run, to which the accesses belong
    survey: Survey


@dataclass(frozen=True, slots=True)
class Turned:
    """An operand that is contiguous along another loop than the result."""

    node: Node
    access: ElementAccess


def choose(jobs: Sequence[SurveyedJob], target: Target) -> GpuElementwiseSchedule:
    """As few kernels as possible, whose threads have enough loads in flight."""
    return GpuElementwiseSchedule(MOST_NESTS, tuple(_nest(one, target) for one in jobs))


def _nest(one: SurveyedJob, target: Target) -> GpuNest:
    job, survey = one.job, one.survey
    loops = runs(job.shape, survey)
    axes = tuple(run.axes for run in loops)
    crossed = _crossed(one, loops)
    if crossed is not None:
        turned = turned_operands(one, loops[-1], loops[crossed])
        lanes = max(1, WORD // max(t.node.type.dtype.nbytes for t in turned))
        if any(divisor(run.extent) % lanes for run in (loops[crossed], loops[-1])):
            lanes = 1  # the widest access; without one, so that a warp covers a cache line
        rows = max(1, min(ROWS, power_of_two(target.block_threads) // target.warp))
        tile = TransposedTile(crossed, target.warp * lanes + 1)
        return GpuNest(axes, lanes, 1, target.warp * rows, tile)
    inner = loops[-1] if loops else Run(volume(()), ())
    nbytes = target.thread_bytes if survey.flops >= DEEP else IN_FLIGHT
    most = min(target.access_bytes, nbytes)
    lanes = access_lanes(target, survey, inner, alone=len(loops) == 1, most=most)
    around = volume(tuple(run.extent for run in loops[:-1]))
    vectors = size_hint(around * ceil_div(inner.extent, lanes))
    copies = _copies(target, survey, nbytes // lanes, vectors)
    return GpuNest(axes, lanes, copies, threads_for(target, vectors), None)


def _crossed(one: SurveyedJob, loops: Sequence[Run]) -> int | None:
    """The number of the longest loop along which some operands are contiguous, if a tiled
    transposition pays.
    """
    for number in sorted(range(len(loops) - 1), key=lambda n: -loops[n].usual):
        long = min(loops[-1].usual, loops[number].usual) >= LEAST
        if long and turned_operands(one, loops[-1], loops[number]):
            return number
    return None


def turned_operands(one: SurveyedJob, inner: Run, crossed: Run) -> list[Turned]:
    """The operands that are contiguous along `crossed`, and not along the innermost loop."""
    across, along = inner.axes[-1], crossed.axes[-1]
    turned = []
    for node in one.dry.group.inputs:
        if is_immediate(node):
            continue
        accesses = one.survey.exact(one.dry.parameter(node))
        if len({(a.strides, a.offset) for a in accesses}) != 1 or accesses[0].opaque:
            continue
        if accesses[0].strides[along] == 1 and accesses[0].strides[across] not in (0, 1):
            turned.append(Turned(node, accesses[0]))
    return turned


def _copies(target: Target, survey: Survey, nbytes: int, vectors: int) -> int:
    """Vectors of a thread: loads of `nbytes` in flight by a lane, as long as there are enough
    threads.
    """
    written = {a.buffer for a in survey.accesses if a.buffer.access.value != "read"}
    each = sum(a.buffer.dtype.nbytes for a in survey.accesses if a.buffer not in written)
    wanted = power_of_two(max(1, min(4, nbytes // max(1, each)))) if survey.statements <= 40 else 1
    while wanted > 1 and vectors < wanted * RESIDENT * max(1, target.processors):
        wanted //= 2
    return wanted


def check(schedule: GpuElementwiseSchedule, jobs: Sequence[SurveyedJob], target: Target) -> None:
    """Raises Misfit for a schedule that these nests cannot have."""
    if len(schedule.nests) != len(jobs):
        raise Misfit(("nests",), f"there are {len(jobs)} nests, not {len(schedule.nests)}")
    for number, (nest, one) in enumerate(zip(schedule.nests, jobs, strict=True)):
        try:
            _check_nest(nest, one, target)
        except Misfit as misfit:
            raise Misfit(("nests", number, *misfit.path), misfit.problem, misfit.hint) from None


def _check_nest(nest: GpuNest, one: SurveyedJob, target: Target) -> None:
    loops = merged(one.job.shape, one.survey, nest.loops)
    inner = loops[-1].extent if loops else volume(())
    if nest.tile is None:
        check_lanes(nest.lanes, inner, target, alone=len(loops) == 1)
        check_threads(nest.threads, target)
        if nest.copies > MOST_COPIES:
            raise Misfit(("copies",), f"it must be at most {MOST_COPIES}")
        return
    tile = nest.tile
    if tile.across >= len(loops) - 1:
        raise Misfit(("tile", "across"), "it must be the number of a loop around the innermost")
    turned = turned_operands(one, loops[-1], loops[tile.across])
    if not turned:
        raise Misfit(("tile", "across"), "no operand is contiguous along this loop alone")
    for run in (loops[-1], loops[tile.across]):
        check_lanes(nest.lanes, run.extent, target, alone=nest.lanes == 1)
    if nest.copies != 1:
        raise Misfit(("copies",), "it must be 1 with a tile")
    check_threads(nest.threads, target, target.warp)
    side = target.warp * nest.lanes
    if nest.threads > target.warp * side:
        raise Misfit(("threads",), f"a tile has {side} rows, a warp takes one")
    if tile.pitch < side:
        raise Misfit(("tile", "pitch"), f"rows have {side} elements")
    nbytes = sum(side * tile.pitch * t.node.type.dtype.nbytes for t in turned)
    check_shared(nbytes, target, ("tile", "pitch"))
