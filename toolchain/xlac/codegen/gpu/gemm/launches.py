"""The kernels of a canonical contraction on a GPU, by its schedule."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from xlac.codegen.core.contraction.contraction import Contraction, OperandSource
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, PackedConstant
from xlac.codegen.core.operands import OperandView
from xlac.codegen.gpu.gemm import (
    skinny_gemm,
    split_k,
    tensor_core_gemm,
    warp_specialized_gemm,
    wgmma,
)
from xlac.codegen.gpu.gemm.block_tiling import BlockTile
from xlac.codegen.gpu.gemm.choose import check, choose, every_template, tile_of
from xlac.codegen.gpu.gemm.epilogue_store import Stores
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct, matrix_product
from xlac.codegen.gpu.gemm.simt_gemm import SimtGemm
from xlac.codegen.gpu.gemm.tensor_core_gemm import TensorCoreTile
from xlac.codegen.gpu.gemm.warp_specialized_gemm import WarpSpecializedTile
from xlac.codegen.gpu.gemm.wgmma import WgmmaTile
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.gpu.gemm import (
    GPU_CONTRACTIONS,
    GpuContraction,
    SimtGemmSchedule,
    SkinnyGemmSchedule,
    TensorCoreGemmSchedule,
    TiledSchedule,
    WarpSpecializedSchedule,
    WgmmaSchedule,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def launches(
    group: Group,
    target: Target,
    name: str,
    decisions: Decisions,
    c: Contraction,
    after: Epilogue,
    right: OperandView,
) -> list[KernelLaunch]:
    """The kernels of a contraction and its epilogue. `right` is the view that the right operand
    came from.
    """
    if right.folded is not None:
        c = replace(c, right=_computed(group, c.right, right))
    p = matrix_product(c, after)
    fits = partial(check, p=p, target=target)
    schedule: GpuContraction = decisions.settle(
        name,
        choose(p, target, after.weight),
        fits,
        GPU_CONTRACTIONS,
        partial(every_template, p, target, after.weight),
    )
    elements = Elements(Builder(), group, target)
    if isinstance(schedule, SkinnyGemmSchedule):
        skinny_gemm.SkinnyGemm(elements, after, p, schedule, target).write()
        return [elements.launch(name, cost.work(group))]
    if schedule.combine is None:
        _write(elements, after, p, schedule, target)
        return [elements.launch(name, cost.work(group))]
    cut = split_k.split(p, schedule.split_k)
    partial_sums = split_k.partial(cut)
    _write(elements, partial_sums, cut, schedule, target)
    finishing = Elements(Builder(), group, target)
    split_k.finish(finishing, after, p, partial_sums, schedule.combine, target)
    return [elements.launch(f"{name}_parts", cost.work(group)), finishing.launch(name)]


def _write(
    elements: Elements, after: Stores, p: MatrixProduct, schedule: TiledSchedule, target: Target
) -> None:
    """The kernel of a tiled product."""
    match schedule:
        case WarpSpecializedSchedule():
            roles = tile_of(schedule, p, target)
            assert isinstance(roles, WarpSpecializedTile)
            warp_specialized_gemm.WarpSpecializedGemm(
                elements, after, p, roles, target, schedule
            ).write()
        case WgmmaSchedule():
            groups = tile_of(schedule, p, target)
            assert isinstance(groups, WgmmaTile)
            wgmma.WgmmaGemm(elements, after, p, groups, target, schedule.epilogue_loop).write()
        case TensorCoreGemmSchedule():
            cores, dtype = tile_of(schedule, p, target), tensor_core_gemm.operand(p, target)
            assert isinstance(cores, TensorCoreTile) and dtype is not None
            tensor_core_gemm.TensorCoreGemm(
                elements, after, p, cores, dtype, target, schedule
            ).write()
        case SimtGemmSchedule():
            tile = tile_of(schedule, p, target)
            assert isinstance(tile, BlockTile)
            SimtGemm(elements, after, p, tile, target, schedule).write()


def _computed(group: Group, source: OperandSource, view: OperandView) -> OperandSource:
    """An operand that is computed from a constant at compile time."""
    assert isinstance(source.value, Node) and view.folded is not None
    folded = view.folded
    (size,) = static((group.anchor.inputs[1].type.size,))

    def make(*arrays: Array) -> Array:
        result = np.ascontiguousarray(folded.compute(*arrays)).reshape(-1)
        return result.astype(source.dtype.numpy, copy=False)

    constant = PackedConstant(
        source.dtype, size, (source.value, *folded.others), make, f"as {source.dtype} {folded.key}"
    )
    return OperandSource(constant, source.dtype, source.offset)
