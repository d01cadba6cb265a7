"""Chooses how tiles of a product's operands are staged in SHARED memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xlac.codegen.core.contraction.matrix_operand import MatrixOperand
from xlac.codegen.gpu.core.instructions import CHUNK
from xlac.codegen.gpu.core.shared_staging import SharedLayout, TileShape, copies, tile_shape
from xlac.codegen.gpu.gemm import tensor_core_gemm
from xlac.codegen.gpu.gemm.block_tiling import BlockTile
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.simt_gemm import Pitched
from xlac.codegen.gpu.gemm.tensor_core_gemm import TensorCoreTile
from xlac.codegen.schedules.gpu.gemm import OperandStaging
from xlac.codegen.schedules.schedule import Misfit, Path
from xlac.ir.dims import Shape
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class StagedTile:
    """A tile of an operand: `span` positions along its side by `step` of the sum, with elements of
    `dtype` and the `layout` in SHARED memory; at most `most` bytes are loaded at once.
    """

    side: MatrixOperand
    span: int
    step: int
    dtype: DType
    layout: Callable[[TileShape], SharedLayout]
    most: int | None = None

    def widest(self, target: Target) -> int:
        """The most elements of a vector."""
        nbytes = max(self.side.source.dtype.nbytes, self.dtype.nbytes)
        return max(1, min(self.most or target.access_bytes, target.access_bytes) // nbytes)


def of_block(p: MatrixProduct, tile: BlockTile) -> list[StagedTile]:
    """The tiles of both operands for ordinary arithmetic; the pitch of their steps does not matter
    here.
    """
    sides = (p.rows, tile.rows), (p.columns, tile.columns)
    return [
        StagedTile(side, span, tile.step, p.accumulate, lambda _: Pitched(0))
        for side, span in sides
    ]


def of_cores(p: MatrixProduct, tile: TensorCoreTile, dtype: DType) -> list[StagedTile]:
    """The tiles of both operands for tensor cores."""
    sides = (p.rows, tile.rows), (p.columns, tile.columns)
    layout = partial(tensor_core_gemm.layout, dtype=dtype)
    return [StagedTile(side, span, tile.step, dtype, layout, CHUNK) for side, span in sides]


def choose(one: StagedTile, depths: Shape, target: Target) -> OperandStaging:
    """The widest vectors, copied asynchronously if possible."""
    shape = tile_shape(one.side, depths, one.span, one.step, one.widest(target))
    able = copies(one.side, shape, one.dtype, one.layout(shape), target)
    return OperandStaging(shape.lanes, "depth" if shape.along_depth else "side", able)


def check(how: OperandStaging, one: StagedTile, depths: Shape, target: Target, path: Path) -> None:
    """Raises Misfit for vectors that do not divide the operand, and for asynchronous copies that
    are not possible.
    """
    deep = how.along == "depth"
    most = min(one.widest(target), one.step if deep else one.span)
    widest = one.side.width(most, along_depth=deep, depth=depths)
    if how.lanes & (how.lanes - 1) or how.lanes > widest:
        raise Misfit(
            (*path, "lanes"), f"it must be a power of two, at most {widest} along its {how.along}"
        )
    shape = TileShape(one.span, one.step, how.lanes, deep)
    if how.asynchronous and not copies(one.side, shape, one.dtype, one.layout(shape), target):
        raise Misfit(
            (*path, "asynchronous"),
            "an asynchronous copy moves 16 bytes at once, without conversion",
        )
