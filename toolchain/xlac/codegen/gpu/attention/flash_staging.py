"""Chooses how flash attention stages queries, keys and values in SHARED memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.core.contraction.matrix_operand import MatrixOperand
from xlac.codegen.gpu.attention.flash_tile import F32, FlashTile
from xlac.codegen.gpu.core.instructions import CHUNK, MMA, Swizzled
from xlac.codegen.gpu.gemm import staging
from xlac.codegen.gpu.gemm.staging import StagedTile
from xlac.codegen.schedules.gpu.attention import FlashStaging
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import Shape
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class FlashLayouts:
    """How queries, keys and values lie in SHARED memory."""

    queries: Swizzled
    keys: Swizzled
    values: Swizzled


def layouts(h: AttentionProblem, tile: FlashTile, target: Target) -> FlashLayouts:
    """The layouts from which the kernel reads fragments; tensor cores for f32 read columns along
    the sum only.
    """
    along = MMA[h.dtype] in target.instructions and h.dtype is F32
    return FlashLayouts(
        Swizzled(h.dtype, tile.width, along_depth=True),
        Swizzled(h.dtype, tile.width, along_depth=False),
        Swizzled(h.dtype, tile.keys if along else tile.wide, along_depth=along),
    )


def choose(h: AttentionProblem, tile: FlashTile, target: Target) -> FlashStaging:
    """The widest vectors, copied asynchronously if possible. The pipeline waits for copies of keys
    and values: where it has none, queries are not copied so either.
    """
    stagings = {
        name: staging.choose(one, depths, target) for name, one, depths in _tiles(h, tile, target)
    }
    chosen = FlashStaging(**stagings)
    if not _waits(chosen):
        chosen = replace(chosen, queries=replace(chosen.queries, asynchronous=False))
    return chosen


def check(schedule: FlashStaging, h: AttentionProblem, tile: FlashTile, target: Target) -> None:
    """Raises Misfit for vectors that do not divide an operand, and for asynchronous copies that are
    not possible.
    """
    for name, one, depths in _tiles(h, tile, target):
        staging.check(getattr(schedule, name), one, depths, target, ("staging", name))
    if schedule.queries.asynchronous and not _waits(schedule):
        problem = "queries may be copied asynchronously only if keys or values are"
        raise Misfit(("staging", "queries", "asynchronous"), problem)


def _waits(schedule: FlashStaging) -> bool:
    return schedule.keys.asynchronous or schedule.values.asynchronous


def _tiles(
    h: AttentionProblem, tile: FlashTile, target: Target
) -> Iterator[tuple[str, StagedTile, Shape]]:
    """The tile of each operand, by the name of its field, and the extent of its sum."""
    lie, length, width = layouts(h, tile, target), (h.length,), (h.widths[0],)

    def staged(side: MatrixOperand, span: int, step: int, layout: Swizzled) -> StagedTile:
        return StagedTile(side, span, step, h.dtype, lambda _: layout, CHUNK)

    yield "queries", staged(h.queries, tile.rows, tile.width, lie.queries), width
    yield "keys", staged(h.keys, tile.width, tile.keys, lie.keys), length
    yield "values", staged(h.values, tile.wide, tile.keys, lie.values), length
