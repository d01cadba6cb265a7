"""Chooses the tiles of depthwise NHWC convolutions."""

from __future__ import annotations

from math import prod

from xlac.codegen.core.contraction.tiling import TileSplit, even_split
from xlac.codegen.core.loop_nest import check_threads
from xlac.codegen.core.strip_mining import joins
from xlac.codegen.cpu.conv import byte_taps
from xlac.codegen.cpu.conv.nhwc_taps import NhwcTaps
from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.cpu.threads_pay import shared
from xlac.codegen.schedules.conv import DepthwiseNhwcSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import size_hint, volume
from xlac_sdk.lowering.wide_functions import TOGETHER

WIDE = 2  # vectors of channels, on targets with 32 registers
PIXELS = 8  # the most pixels of a tile
NEAR = 3  # columns of x that are held in registers at once


def choose(taps: NhwcTaps) -> DepthwiseNhwcSchedule:
    """Tiles whose sums take half of the registers that are not used by loads."""
    g, target = taps.g, taps.target
    lanes = register_tile.lanes_for(target, taps.accumulate, taps.channels)
    several = taps.channels > lanes and target.vector_registers >= 32
    vectors = WIDE if several else 1
    room = target.vector_registers - _loaded(taps, vectors)
    pixels = max(1, min(PIXELS, room // (2 * vectors)))
    if joins(target, taps.after.weight) and size_hint(taps.width) >= TOGETHER:
        pixels = TOGETHER  # whose deep epilogues are computed at once
    elif isinstance(taps.width, int):
        pixels = even_split(taps.width, pixels).step
    panels = TileSplit(-(-taps.channels // lanes), vectors).count
    items = size_hint(volume((*(g.result[s] for s in taps.letters), panels)))
    every = prod(taps.taps[s] for s in g.op.spatial) * size_hint(volume(tuple(g.result.values())))
    words = taps.able_words and byte_taps.pays(target)
    return DepthwiseNhwcSchedule(
        pixels, vectors, lanes, shared(items, 2 * every, taps.accumulate, target), words
    )


def _loaded(taps: NhwcTaps, vectors: int) -> int:
    """Registers of the values that a tile loads: columns of x shared by its windows,
    and weights.
    """
    return vectors * (min(taps.taps.get(taps.across, 1), NEAR) + 1)


def check(schedule: DepthwiseNhwcSchedule, taps: NhwcTaps) -> None:
    """Raises Misfit for a schedule that the convolution cannot have."""
    target = taps.target
    most = target.lanes(taps.accumulate)
    if schedule.lanes & (schedule.lanes - 1) or schedule.lanes > most:
        raise Misfit(("lanes",), f"it must be a power of two, at most {most} on this target")
    if schedule.vectors > -(-taps.channels // schedule.lanes):
        raise Misfit(("vectors",), f"there are {taps.channels} channels")
    if isinstance(taps.width, int) and schedule.pixels > taps.width:
        raise Misfit(("pixels",), f"a row has {taps.width}")
    used = schedule.pixels * schedule.vectors + _loaded(taps, schedule.vectors)
    if used > target.vector_registers and (schedule.pixels, schedule.vectors) != (1, 1):
        raise Misfit(("pixels",), f"the tile takes {used} registers, of {target.vector_registers}")
    if schedule.words and not taps.able_words:
        raise Misfit(("words",), "no four products of bytes are one instruction here")
    check_threads(schedule.threads, 1)
