"""Chooses how tiles of a product's operands come to SHARED memory."""

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
    """A tile of an operand: `span` places along its side by `step` of the sum, whose elements are of
    a type in SHARED memory, and lie there as `layout` says; `most` bytes are read at once.
    """

    side: MatrixOperand
    span: int
    step: int
    dtype: DType
    layout: Callable[[TileShape], SharedLayout]
    most: int | None = None

    def widest(self, target: Target) -> int:
        """Elements of a vector, at most."""
        nbytes = max(self.side.source.dtype.nbytes, self.dtype.nbytes)
        return max(1, min(self.most or target.access_bytes, target.access_bytes) // nbytes)


def of_block(p: MatrixProduct, tile: BlockTile) -> list[StagedTile]:
    """The tiles of both operands on ordinary arithmetic; how far their steps are apart does not
    matter here.
    """
    sides = (p.rows, tile.rows), (p.columns, tile.columns)
    return [
        StagedTile(side, span, tile.step, p.accumulate, lambda _: Pitched(0))
        for side, span in sides
    ]


def of_cores(p: MatrixProduct, tile: TensorCoreTile, dtype: DType) -> list[StagedTile]:
    """The tiles of both operands on tensor cores."""
    sides = (p.rows, tile.rows), (p.columns, tile.columns)
    layout = partial(tensor_core_gemm.layout, dtype=dtype)
    return [StagedTile(side, span, tile.step, dtype, layout, CHUNK) for side, span in sides]


def choose(one: StagedTile, depths: Shape, target: Target) -> OperandStaging:
    """The widest vectors, copied by the machine where it can."""
    shape = tile_shape(one.side, depths, one.span, one.step, one.widest(target))
    able = copies(one.side, shape, one.dtype, one.layout(shape), target)
    return OperandStaging(shape.lanes, "depth" if shape.along_depth else "side", able)


def check(how: OperandStaging, one: StagedTile, depths: Shape, target: Target, path: Path) -> None:
    """Raises Misfit for vectors that the operand is not made of, and copies that are none."""
    deep = how.along == "depth"
    most = min(one.widest(target), one.step if deep else one.span)
    widest = one.side.width(most, along_depth=deep, depth=depths)
    if how.lanes & (how.lanes - 1) or how.lanes > widest:
        raise Misfit(
            (*path, "lanes"), f"it must be a power of two, at most {widest} along its {how.along}"
        )
    shape = TileShape(one.span, one.step, how.lanes, deep)
    if how.asynchronous and not copies(one.side, shape, one.dtype, one.layout(shape), target):
        raise Misfit((*path, "asynchronous"), "the machine copies 16 bytes at once, as they are")
