"""The distribution of split-KV decoding over blocks and threads."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.gpu.core.grid import at_least, check_shared, check_threads, power_of_two
from xlac.codegen.gpu.gemm import block_tiling
from xlac.codegen.gpu.reduction import arrival_counter
from xlac.codegen.schedules.gpu.attention import SplitKvDecodeSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.ir.dims import size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

FEW = 4  # rows for which a thread holds sums
MOST = 16  # rows above which flash attention is faster
WARPS = 4
AHEAD, MOST_AHEAD = 2, 8  # keys that a thread loads before it uses the first
MOST_SPLITS = 64
COMBINE_THREADS = 128
KEYS = 64  # keys for each block, at least

P = Primitive


@dataclass(frozen=True, slots=True)
class DecodeSplit:
    """The distribution of the work: `few` rows at a time, `lanes` elements of a row held by a
    thread in vectors of `part`, `across` threads for each row, `warps` of a block, `splits` blocks
    that share the keys of a head, and `ahead` keys loaded at once by a thread.
    """

    few: int
    lanes: int
    part: int
    across: int
    warps: int
    splits: int
    ahead: int

    @property
    def parts(self) -> int:
        """The number of vectors of a row that a thread holds."""
        return self.lanes // self.part


def takes(rows: int, widths: tuple[int, int], dtype: DType, target: Target) -> bool:
    """Whether there are few rows, of a width that the threads of a warp can hold."""
    return (
        rows <= MOST
        and widths[0] == widths[1]
        and widths[0] <= target.warp * held_lanes(widths[0], dtype, target)
    )


def held_lanes(width: int, dtype: DType, target: Target) -> int:
    """Elements of a row of this width that a thread holds."""
    lanes = max(1, target.access_bytes // dtype.nbytes)
    while width % lanes:
        lanes //= 2
    return lanes


def split_of(schedule: SplitKvDecodeSchedule, h: AttentionProblem) -> DecodeSplit:
    """The distribution by a schedule."""
    s = schedule
    across = at_least(h.widths[0] // s.lanes)
    return DecodeSplit(s.few, s.lanes, s.part, across, s.warps, s.splits, s.ahead)


def check(schedule: SplitKvDecodeSchedule, h: AttentionProblem, target: Target) -> None:
    """Raises Misfit for a schedule by which the threads of a block cannot share rows."""
    s, width, most = schedule, h.widths[0], max(1, target.access_bytes // h.dtype.nbytes)
    if width != h.widths[1]:
        raise Misfit(("template",), "keys and values must have the same width")
    for field, value, limit in (
        ("few", s.few, 2 * FEW),
        ("lanes", s.lanes, most),
        ("part", s.part, s.lanes),
        ("warps", s.warps, target.block_threads // target.warp),
    ):
        if value & (value - 1) or value > limit:
            raise Misfit((field,), f"it must be a power of two, at most {limit} here")
    if width % s.lanes or width > target.warp * s.lanes:
        raise Misfit(("lanes",), f"a row has {width} elements, a warp {target.warp} threads")
    for field, value, limit in (("splits", s.splits, MOST_SPLITS), ("ahead", s.ahead, MOST_AHEAD)):
        if value > limit:
            raise Misfit((field,), f"it must be at most {limit}")
    columns = split_of(s, h).across * s.lanes
    nbytes = s.warps * s.few * (columns + 2) * h.dtype.compute.nbytes
    check_shared(nbytes, target, ("warps",))
    if s.splits == 1:
        if s.combine_threads is not None:
            raise Misfit(("combine_threads",), "one block has nothing to combine: it must be null")
    elif s.combine_threads is not None:
        check_threads(s.combine_threads, target, path=("combine_threads",))
    elif not arrival_counter.has_tickets(target):
        raise Misfit(
            ("combine_threads",),
            "this target has no atomic counter by which the last block knows that it is the last",
        )


def choose(h: AttentionProblem, target: Target) -> SplitKvDecodeSchedule:
    """The schedule with the best distribution."""
    how = _share(h, target)
    combined = how.splits == 1 or arrival_counter.has_tickets(target)
    threads = None if combined else min(COMBINE_THREADS, power_of_two(target.block_threads))
    return SplitKvDecodeSchedule(
        how.few, how.lanes, how.part, how.warps, how.splits, how.ahead, threads
    )


def _share(h: AttentionProblem, target: Target) -> DecodeSplit:
    """Enough blocks to use the bandwidth of every multiprocessor, but few enough that each has keys
    to read.
    """
    lanes = held_lanes(h.widths[0], h.dtype, target)
    few = min(FEW, at_least(size_hint(h.rows)))
    heads = size_hint(volume(h.batch)) * -(-size_hint(h.rows) // few)
    wanted = -(-2 * (target.processors or block_tiling.PROCESSORS) // max(1, heads))
    return DecodeSplit(
        few,
        lanes,
        min(lanes, max(1, min(4, target.access_bytes // h.dtype.compute.nbytes))),
        at_least(h.widths[0] // lanes),
        max(1, min(WARPS, target.block_threads // target.warp)),
        max(1, min(wanted, size_hint(h.length) // KEYS, 32)),
        AHEAD,
    )
