"""Tiling of a matrix product over blocks, warps and threads."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

PROCESSORS = 100  # multiprocessors of a GPU whose target does not say
RESIDENT = 512  # threads that keep a multiprocessor's arithmetic units busy


@dataclass(frozen=True, slots=True)
class BlockTile:
    """A block's tile: `warps` (down, across), each of `lanes` threads (down, across), each with
    `pieces` (down, across) vectors.
    """

    warps: tuple[int, int]
    lanes: tuple[int, int]
    pieces: tuple[int, int]
    vector: int  # elements of one vector of results
    step: int  # steps of the sum that are staged at once

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.warps[0] * self.warps[1] * self.lanes[0] * self.lanes[1]

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.warps[0] * self.lanes[0] * self.pieces[0] * self.vector

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.warps[1] * self.lanes[1] * self.pieces[1] * self.vector

    def shared_bytes(self, dtype: DType, stages: int = 2) -> int:
        """SHARED memory for the operands."""
        return stages * self.step * (self.rows + self.columns + 2 * self.vector) * dtype.nbytes


_WARPS = ((4, 2), (2, 2), (2, 1), (1, 2), (1, 1))
_PIECES = ((2, 2), (1, 2), (1, 1))
SHAPES = _WARPS, _PIECES  # of a block
STEP = 8  # of the sum


def vector_of(target: Target, dtype: DType) -> int:
    """Elements that one thread loads or stores at once, up to 4."""
    return max(1, min(4, target.access_bytes // dtype.nbytes))


def spread(warp: int) -> tuple[int, int]:
    """A warp's threads as (rows, columns), as square as possible, wider rather than taller."""
    across = 1 << ((warp.bit_length()) // 2)
    return warp // across, across


def choose(target: Target, p: MatrixProduct) -> BlockTile:
    """The tile with the least estimated time: large tiles read SHARED memory less, small ones leave
    fewer multiprocessors idle.
    """
    batch, rows, columns, _ = p.usual
    vector, lanes = vector_of(target, p.accumulate), spread(target.warp)
    step = STEP
    best: tuple[float, BlockTile] | None = None
    for warps in _WARPS:
        for pieces in _PIECES:
            tile = BlockTile(warps, lanes, pieces, vector, step)
            if (
                tile.threads > target.block_threads
                or tile.shared_bytes(p.accumulate) > target.shared_bytes
            ):
                continue
            blocks = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
            at_once = (target.processors or PROCESSORS) * max(1, RESIDENT // tile.threads)
            # reads of SHARED memory for each product
            reads = 1 / (pieces[0] * vector) + 1 / (pieces[1] * vector)
            work = tile.rows * tile.columns * (1 + 2 * reads) + p.computing(tile.rows, tile.columns)
            time = -(-blocks // at_once) * max(1, RESIDENT // tile.threads) * work
            if best is None or time < best[0]:
                best = time, tile
    assert best is not None, "a block of one warp has room on every GPU"
    return best[1]
