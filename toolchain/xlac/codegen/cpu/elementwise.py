"""Elementwise groups: loops over the outputs' elements, each computed alone.

Axes collapse where every operand allows it, the innermost loop is a vector loop over the axis along
which the output is contiguous, and the outermost is split over threads when there is work for them.
An output that is a concatenation is written piece by piece, so that no element has to find out
which piece it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import (
    Run,
    Survey,
    Surveyor,
    contiguous,
    expand,
    runs,
    strided,
)
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import (
    CHUNKS,
    SERIAL_WORK,
    bounded,
    chunk_of,
    joins,
    lanes_for,
    outer,
    piece,
    pieces_of,
    strips,
    unroll_for,
)
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart
from xlac.codegen.core.packing import TURNED, transposed
from xlac.fusion import cost
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Dim, Shape, divisor, size_hint, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.tensor import view
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.support.limits import went
from xlac_sdk.target import Target

TILE = 32  # elements a side of the blocks in which a transposition is done
Square = tuple[int, Callable[[dict[Run, Expr], Expr, Expr], None]]
"""Lanes, and what moves so many rows by so many columns."""
# of one kernel: compilers take longer than linear over long stretches of loads and stores
NESTS = 32
STREAM = 4  # times the last cache that outputs must exceed before they are written past it


@dataclass(frozen=True, slots=True)
class Job:
    """One nest: `value` at every index of its shape goes to `output` at that index plus `shift`."""

    shape: Shape
    stores: tuple[tuple[Node, Node, Shape], ...]  # value, output, shift an axis


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch for a group of one shape; a large group of several shapes takes one for each, a
    small one for every few.
    """
    found = [job for job in jobs(group) if volume(job.shape) != 0]
    work = cost.work(group)
    large = len(found) > 1 and (
        work.flops + work.bytes > SERIAL_WORK or any(_parallel(j, group, target) for j in found)
    )
    launches: list[KernelLaunch] = []
    in_place: list[tuple[Node, Node]] = []
    together = (
        1
        if large and (len(found) <= NESTS or any(_parallel(j, group, target) for j in found))
        else NESTS
    )
    for number, batch in enumerate(
        found[start : start + together] for start in range(0, len(found), together)
    ):
        elements = Elements(Builder(), group, target)
        for job in batch:
            dry = Surveyor(elements, job.shape)
            store(dry.elements, dry.index, job.stores, streaming=False)
            survey = dry.survey()
            _nest(elements, job, survey, streaming=_streams(group, target))
            if len(found) == 1:
                in_place = overwritten(dry.elements, survey)
        launches.append(elements.launch(f"{name}_{number}" if number else name, work))
    return LoweredGroup(tuple(launches), tuple(in_place))


def _parallel(job: Job, group: Group, target: Target) -> bool:
    """Whether a nest may be split over threads: then it is alone in its kernel."""
    dry = Surveyor(Elements(Builder(), group, target), job.shape)
    store(dry.elements, dry.index, job.stores, streaming=False)
    survey = dry.survey()
    return size_hint(volume(job.shape)) * (survey.flops + len(survey.accesses)) >= SERIAL_WORK


def jobs(group: Group) -> list[Job]:
    """Outputs of one shape share a nest; a concatenation has one for each piece."""
    by_shape: dict[Shape, list[tuple[Node, Node, Shape]]] = {}
    pieces: list[Job] = []
    for node in group.outputs:
        shape = node.shape
        if isinstance(node.op, view.Concat) and shape[node.op.axis] not in (0, 1):
            start: Dim = 0
            for part in node.inputs:
                shift = tuple(start if a == node.op.axis else 0 for a in range(len(shape)))
                pieces.append(Job(part.shape, ((part, node, shift),)))
                start = start + part.shape[node.op.axis]
        else:
            by_shape.setdefault(shape, []).append((node, node, (0,) * len(shape)))
    return [Job(shape, tuple(stores)) for shape, stores in by_shape.items()] + pieces


def store(
    elements: Elements, index: Index, stores: Sequence[tuple[Node, Node, Shape]], *, streaming: bool
) -> None:
    """All values before any store, so that an output may take the place of an input."""
    went()
    values = [elements.at(value, index) for value, _, _ in stores]
    for (_, output, shift), value in zip(stores, values, strict=True):
        moved = tuple(build.add(i, s) if s else i for i, s in zip(index, shift, strict=True))
        elements.store(output, moved, value, streaming=streaming)


def _nest(elements: Elements, job: Job, survey: Survey, *, streaming: bool) -> None:
    builder, target = elements.builder, elements.target
    loops = runs(job.shape, survey)
    each = survey.flops + len(survey.accesses)  # operations an element
    if not loops:
        store(elements, expand({}, job.shape), job.stores, streaming=False)
        return
    inner = loops[-1]
    lanes = lanes_for(target, survey.dtypes, inner.extent)
    copies, join = unroll_for(target, survey.statements, survey.flops), joins(target, survey.flops)

    def strip(counters: dict[Run, Expr], start: build.Number, length: build.Number) -> None:
        def body(bases: Sequence[Expr], wide: int, mask: Expr | None) -> None:
            with elements.masked(mask):
                for base in bases:
                    at = expand({**counters, inner: build.ramp(base, 1, wide)}, job.shape)
                    store(
                        elements, at, job.stores, streaming=streaming and mask is None and wide > 1
                    )

        strips(builder, target, start, length, lanes, copies, body, join)

    crossed = [
        run for run in loops[:-1] if strided(inner, survey) and contiguous(run, survey, job.shape)
    ]
    if crossed and inner.usual > TILE and crossed[-1].usual > TILE // 4:
        _tiles(
            elements,
            loops[:-1],
            inner,
            crossed[-1],
            each,
            strip,
            _squares(elements, job, survey, crossed[-1], inner),
        )
        return
    rows = size_hint(volume(tuple(run.extent for run in loops[:-1])))
    chunk = chunk_of(lanes * copies, each)
    if (
        rows * inner.usual * each >= SERIAL_WORK
        and rows < CHUNKS * max(2, target.threads)
        and inner.usual >= 2 * chunk
    ):
        pieces = pieces_of(inner.extent, chunk)
        with outer(builder, target, [*loops[:-1], pieces], chunk * each) as counters:
            start = build.mul(counters.pop(pieces), chunk)
            strip(counters, start, piece(builder, start, inner.extent, chunk))
        return
    with outer(builder, target, loops[:-1], inner.usual * each) as counters:
        strip(counters, 0, inner.extent)


def _tiles(
    elements: Elements,
    rest: Sequence[Run],
    inner: Run,
    crossed: Run,
    each: int,
    strip: Callable[[dict[Run, Expr], build.Number, build.Number], None],
    square: Square | None,
) -> None:
    """A transposition, in square blocks that stay in the cache: some operands run along one axis,
    some along the other.

    Where there is a `square` of so many lanes, blocks are made of these.
    """
    builder, target = elements.builder, elements.target
    around = [run for run in rest if run is not crossed]
    down, across = pieces_of(crossed.extent, TILE), pieces_of(inner.extent, TILE)
    with outer(builder, target, [*around, down, across], TILE * TILE * each) as counters:
        top, left = build.mul(counters.pop(down), TILE), build.mul(counters.pop(across), TILE)
        bottom = _end(builder, top, crossed.extent)
        if square:
            lanes, turn = square
            with (
                builder.loop("t", top, bottom, lanes) as row,
                builder.loop("i", left, _end(builder, left, inner.extent), lanes) as column,
            ):
                turn(counters, row, column)
            return
        with builder.loop("t", top, bottom) as row:
            counters[crossed] = row
            if divisor(inner.extent) % TILE:
                strip(counters, left, build.sub(_end(builder, left, inner.extent), left))
            else:
                strip(counters, left, TILE)


def _squares(
    elements: Elements, job: Job, survey: Survey, crossed: Run, inner: Run
) -> Square | None:
    """What turns a square of vectors around in registers, where one operand that runs along
    `crossed` is moved and no more.
    """
    builder, lanes = elements.builder, lanes_for(elements.target, survey.dtypes, inner.extent)
    accesses, axis = survey.accesses, crossed.axes[-1]
    moved = (
        len(job.stores) == 1
        and not survey.flops
        and len(accesses) == 2
        and accesses[0].strides[axis] == 1
    )
    whole = all(isinstance(run.extent, int) and run.extent % lanes == 0 for run in (crossed, inner))
    if (
        not moved
        or not whole
        or accesses[0].opaque
        or survey.opaque
        or not 1 < lanes <= TURNED
        or elements.target.size
    ):
        return None
    ((value, output, shift),) = job.stores

    def turn(counters: dict[Run, Expr], row: Expr, column: Expr) -> None:
        along = {**counters, crossed: build.ramp(row, 1, lanes)}
        read = [
            elements.at(value, expand({**along, inner: build.add(column, i)}, job.shape))
            for i in range(lanes)
        ]
        for i, turned in enumerate(transposed(builder, read)):
            at = expand(
                {**counters, crossed: build.add(row, i), inner: build.ramp(column, 1, lanes)},
                job.shape,
            )
            elements.store(
                output,
                tuple(build.add(a, s) if s else a for a, s in zip(at, shift, strict=True)),
                turned,
            )

    return lanes, turn


def _end(builder: Builder, start: Expr, extent: Dim) -> Expr:
    """The end of a tile, which may be cut short by the end of the axis."""
    stop = build.add(start, TILE)
    if divisor(extent) % TILE == 0:
        return stop
    return bounded(builder, build.apply(Primitive.MIN, stop, build.lift(extent)), extent)


def _streams(group: Group, target: Target) -> bool:
    return sum(map(cost.nbytes, group.outputs)) > STREAM * target.l3_bytes


def overwritten(dry: Elements, survey: Survey) -> list[tuple[Node, Node]]:
    """Outputs that may overwrite an input: it is only read at the index that is being written."""
    found = []
    for node in dry.group.inputs:
        read = [] if is_immediate(node) else survey.exact(dry.parameter(node))
        for output in dry.group.outputs:
            written = survey.exact(dry.parameter(output))  # nothing, where an axis has no extent
            same = all(
                a.strides == w.strides and a.offset == w.offset and not a.opaque
                for a in read
                for w in written[:1]
            )
            if read and written and same and node.type == output.type:
                found.append((output, node))
    return found
