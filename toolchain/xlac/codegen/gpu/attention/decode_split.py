"""How attention of a few queries is shared by blocks and threads."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.attention_problem import AttentionProblem
from xlac.codegen.gpu.core.grid import at_least
from xlac.codegen.gpu.gemm import block_tiling
from xlac.ir.dims import size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

FEW = 4  # rows that a thread has sums for
MOST = 16  # rows above which keys are better multiplied in tiles
WARPS = 4
KEYS = 64  # that a block has to itself, at least

P = Primitive


@dataclass(frozen=True, slots=True)
class DecodeSplit:
    """How the work is shared: rows at a time, elements of a row that a thread holds and that are
    worked on at once, threads of a row, and the blocks that share the keys of one head."""

    few: int
    lanes: int
    part: int
    across: int
    warps: int
    splits: int

    @property
    def parts(self) -> int:
        """Stretches of a row that a thread works on one after another."""
        return self.lanes // self.part


def takes(rows: int, widths: tuple[int, int], dtype: DType, target: Target) -> bool:
    """True for few rows, of a width that a warp's threads hold between them."""
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


def share(h: AttentionProblem, target: Target) -> DecodeSplit:
    """Enough blocks to keep every multiprocessor reading, and few enough that each has something to
    read.
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
    )
