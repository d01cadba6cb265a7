"""Decides how a contraction is computed on a GPU: by which kernel, and in which tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.core.contraction import Contraction, OperandSource
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import KernelLaunch, PackedConstant
from xlac.codegen.core.operands import OperandView
from xlac.codegen.gpu.gemm import (
    block_tiling,
    skinny_gemm,
    skinny_tile,
    split_k,
    tensor_core_gemm,
    warp_specialized_gemm,
    wgmma,
)
from xlac.codegen.gpu.gemm.epilogue_store import Stores
from xlac.codegen.gpu.gemm.matrix_product import MatrixProduct, matrix_product
from xlac.codegen.gpu.gemm.simt_gemm import SimtGemm
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def launches(
    group: Group, target: Target, name: str, c: Contraction, after: Epilogue, right: OperandView
) -> list[KernelLaunch]:
    """The kernels of a contraction and its epilogue. `right` is the view that the right operand
    came from.
    """
    if right.compute is not None:
        c = replace(c, right=_computed(group, c.right, right))
    p = matrix_product(c, after)
    elements = Elements(Builder(), group, target)
    if skinny_tile.pays(p):
        skinny_gemm.SkinnyGemm(elements, after, p, skinny_tile.share(p, target), target).write()
        return [elements.launch(name, cost.work(group))]
    tiled = _tiled(p, target)
    parts = split_k.parts(p, tiled.blocks, tiled.step, target.processors or block_tiling.PROCESSORS)
    if parts == 1:
        tiled.write(elements, after, p)
        return [elements.launch(name, cost.work(group))]
    cut = split_k.split(p, parts)
    found = split_k.partial(cut)
    tiled.write(elements, found, cut)
    finishing = Elements(Builder(), group, target)
    split_k.finish(finishing, after, p, found, target)
    return [elements.launch(f"{name}_parts", cost.work(group)), finishing.launch(name)]


@dataclass(frozen=True, slots=True)
class _Tiled:
    """A kernel in tiles: how many blocks it has, how much of the sum a tile covers, and what writes
    it.
    """

    blocks: int
    step: int
    write: Callable[[Elements, Stores, MatrixProduct], None]


def _tiled(p: MatrixProduct, target: Target) -> _Tiled:
    """On tensor cores, where they take the operands as they are; else on ordinary arithmetic."""
    roles = warp_specialized_gemm.choose(p, target)
    if roles:

        def by_roles(elements: Elements, after: Stores, p: MatrixProduct) -> None:
            warp_specialized_gemm.WarpSpecializedGemm(elements, after, p, roles, target).write()

        return _Tiled(_blocks(p, roles.rows, roles.columns), roles.step, by_roles)
    groups = wgmma.choose(p, target)
    if groups:

        def by_groups(elements: Elements, after: Stores, p: MatrixProduct) -> None:
            wgmma.WgmmaGemm(elements, after, p, groups, target).write()

        return _Tiled(_blocks(p, groups.rows, groups.columns), groups.step, by_groups)
    dtype = tensor_core_gemm.operand(p, target)
    cores = tensor_core_gemm.choose(target, p, dtype) if dtype else None
    if dtype and cores:

        def by_cores(elements: Elements, after: Stores, p: MatrixProduct) -> None:
            tensor_core_gemm.TensorCoreGemm(elements, after, p, cores, dtype, target).write()

        return _Tiled(_blocks(p, cores.rows, cores.columns), cores.step, by_cores)
    tile = block_tiling.choose(target, p)

    def plain(elements: Elements, after: Stores, p: MatrixProduct) -> None:
        SimtGemm(elements, after, p, tile, target).write()

    return _Tiled(_blocks(p, tile.rows, tile.columns), tile.step, plain)


def _blocks(p: MatrixProduct, rows: int, columns: int) -> int:
    batch, down, across, _ = p.usual
    return batch * -(-down // rows) * -(-across // columns)


def _computed(group: Group, source: OperandSource, view: OperandView) -> OperandSource:
    """An operand that is computed from a constant while compiling."""
    assert isinstance(source.value, Node) and view.compute is not None
    compute = view.compute
    (size,) = static((group.anchor.inputs[1].type.size,))

    def make(array: Array) -> Array:
        return (
            np.ascontiguousarray(compute(array)).reshape(-1).astype(source.dtype.numpy, copy=False)
        )

    made = PackedConstant(
        source.dtype, size, (source.value,), make, f"as {source.dtype} {view.key}"
    )
    return OperandSource(made, source.dtype, source.offset)
