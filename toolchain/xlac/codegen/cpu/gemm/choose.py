"""Decides how a canonical contraction is computed: which operand is packed, and by which kernel."""

from __future__ import annotations

from dataclasses import replace

from xlac.codegen.core import packing
from xlac.codegen.core.contraction import Contraction
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch
from xlac.codegen.core.operands import View
from xlac.codegen.core.packing import Panels
from xlac.codegen.core.tiling import RegisterTile
from xlac.codegen.cpu.gemm import autovectorized, inner_product, register_tile, register_transpose
from xlac.codegen.cpu.gemm.gemm import OuterProduct, streams
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import divisor, size_hint
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def launches(
    group: Group, target: Target, name: str, c: Contraction, after: Epilogue, right: View
) -> list[KernelLaunch]:
    """The kernels of a contraction and its epilogue. `right` is the view that the right operand
    came from.
    """
    if (
        c.columns.extent == 1
        and c.row_count == c.rows[1].extent != 1
        and right.compute is None
        and len(c.inner) == 1
    ):
        c = c.swapped()
    if right.compute is None and inner_product.pays(c, target):
        elements = Elements(Builder(), group, target)
        inner_product.InnerProduct(elements, after, c, target).write()
        return [elements.launch(name, cost.work(group))]
    if autovectorized.pays(c, target):
        wide = autovectorized.tile(c)
        panels = (
            packing.constant(c, wide, c.right.dtype, right.compute, right.key)
            if c.right.constant
            else packing.direct(c)
        )
        if panels.packed:
            c, panels = panels.merged(c)
        elements = Elements(Builder(), group, target)
        autovectorized.LaneLoops(elements, after, c, panels, target).write()
        return [elements.launch(name, cost.work(group))]
    rows = (max(1, c.rows[0].usual), max(1, c.rows[1].usual))
    tile = register_tile.choose(
        target, c.accumulate, rows, max(1, c.columns.usual), max(1, size_hint(c.depth))
    )
    # squares of vectors are turned around: tall tiles fill them
    if register_transpose.pays(after, c, tile, target):
        tile = register_tile.choose(
            target,
            c.accumulate,
            rows,
            min(max(1, c.columns.usual), register_transpose.WIDE * tile.lanes),
            max(1, size_hint(c.depth)),
        )
    panels, before = _right(group, target, name, c, tile, right)
    if panels.packed:
        c, panels = panels.merged(c)

    def written(name: str, backward: bool) -> KernelLaunch:
        elements = Elements(Builder(), group, target)
        OuterProduct(elements, after, c, tile, panels, target, backward).write()
        return elements.launch(name, cost.work(group))

    forward = written(name, backward=False)
    if c.right.constant and streams(c, tile, target):
        forward = replace(
            forward, backward=lambda: written(f"{name}_backward", backward=True).kernel
        )
    return [*before, forward]


def _right(
    group: Group, target: Target, name: str, c: Contraction, tile: RegisterTile, view: View
) -> tuple[Panels, list[KernelLaunch]]:
    """The right operand as the micro-kernel will read it, and what has to run before."""
    computed = view.compute is not None
    whole = divisor(c.columns.extent) % tile.lanes == 0 or target.masked or tile.lanes == 1
    readable = c.columns.right == 1 and whole and not computed
    reuse = -(-c.rows[0].usual // tile.rows[0]) * -(-c.rows[1].usual // tile.rows[1])
    # stays so: small is what it is for
    quantised = c.right.dtype is DType.I8 and c.accumulate.is_float
    dtype = c.accumulate if reuse > 2 and not quantised else c.right.dtype
    if c.right.constant:
        if readable and (target.size or packing.is_packed_already(c, tile)):
            return packing.direct(c), []
        return packing.constant(c, tile, dtype, view.compute, view.key), []
    near = size_hint(c.depth * c.columns.extent) * c.right.dtype.nbytes <= target.l1_bytes // 2
    unconverted = c.right.dtype is c.accumulate and packing.reads_well(c, tile, reuse, target)
    if readable and (target.size or reuse <= 2 or near or unconverted):
        return packing.direct(c), []
    launching, panels = packing.running(group, target, f"{name}_pack", c, tile, dtype)
    return panels, [launching]
