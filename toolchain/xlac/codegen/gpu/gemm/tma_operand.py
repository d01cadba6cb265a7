"""An operand whose tiles the tensor memory accelerator (TMA) copies: its axes as boxes, and the
copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.matrix_operand import Counters, MatrixOperand
from xlac.codegen.core.elements import Elements
from xlac.codegen.gpu.core import tma
from xlac.codegen.gpu.core.instructions import CHUNK, Swizzled, SwizzledPanels
from xlac.codegen.gpu.core.tma import Barriers
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct
from xlac.codegen.gpu.gemm.wgmma import ROW
from xlac.ir.dims import Dim, size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, TensorMap
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
AXES = 4  # axes of an operand: the TMA supports five, of which split-K takes one


@dataclass(frozen=True, slots=True)
class BoxAxis:
    """An axis of an operand in the tensor map: its role, extent and stride."""

    of: str  # "side", "depth", or the number of a batch axis
    extent: Dim
    stride: Dim


def box_axes(p: MatrixProduct, side: MatrixOperand) -> list[BoxAxis]:
    """An operand's axes, outermost first; empty if the TMA does not support its layout.

    It requires at least 16 contiguous bytes, one axis each of the side and of the sum, and strides
    in multiples of 16 bytes.
    """
    most = CHUNK // side.source.dtype.nbytes
    whole = any(
        side.width(most, along_depth=deep, depth=p.depths) == most for deep in (True, False)
    )
    if not whole or len(side.extents) != 1 or len(p.depths) != 1 or side.borders:
        return []
    boxes = [
        BoxAxis("side", side.extents[0], side.strides[0]),
        BoxAxis("depth", p.depths[0], side.depth[0]),
    ]
    boxes += [
        BoxAxis(str(n), *axis)
        for n, axis in enumerate(zip(p.batch, side.batch, strict=True))
        if axis[1] != 0
    ]
    boxes.sort(key=lambda axis: -size_hint(axis.stride))
    right = (
        boxes[-1].stride == 1
        and boxes[-1].of in ("side", "depth")
        and size_hint(boxes[-2].stride) > 1
    )
    return boxes if right else []


class TmaOperand:
    """One operand staged by the TMA: its tensor map, and the boxes of a tile."""

    def __init__(
        self,
        elements: Elements,
        p: MatrixProduct,
        side: MatrixOperand,
        span: int,
        memory: Buffer,
        hint: str,
    ) -> None:
        self.memory, self.span = memory, span
        self.axes = box_axes(p, side)
        self.width = ROW // memory.dtype.nbytes
        self.along_depth = self.axes[-1].of == "depth"
        self.layout: Swizzled | SwizzledPanels = (
            Swizzled(memory.dtype, self.width, True)
            if self.along_depth
            else SwizzledPanels(memory.dtype)
        )
        rows = {"side": span, "depth": self.width}
        box = (*(rows.get(axis.of, 1) for axis in self.axes[:-1]), self.width)
        self.map = TensorMap(
            elements.builder.fresh(hint),
            elements.parameter(side.source.value, Access.READ),
            build.lift(side.source.offset),
            tuple(build.lift(axis.extent) for axis in self.axes),
            tuple(build.lift(axis.stride) for axis in self.axes[:-1]),
            box,
        )

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return self.span * self.width

    def bring(
        self,
        builder: build.Builder,
        at: Expr,
        full: Barriers,
        slot: Expr,
        batch: Counters,
        first: Expr,
        step: Expr,
    ) -> None:
        """Starts the copies of a tile: one box, or one for each panel if the operand is contiguous
        along its side.
        """
        apart = self.span if self.along_depth else self.width
        for start in range(0, self.span, apart):
            known = {"side": build.add(first, start), "depth": step}
            place = [
                known[axis.of] if axis.of in known else batch[int(axis.of)] for axis in self.axes
            ]
            to = build.add(at, start * self.width)
            builder.emit(tma.bring(self.map, self.memory, to, full, slot, place))
