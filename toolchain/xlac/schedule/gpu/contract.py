"""Decides how a contraction is computed on a GPU: by which kernel, and in which tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.schedule import cost
from xlac.schedule.contraction import Contraction, Source
from xlac.schedule.elements import Elements
from xlac.schedule.epilogue import Epilogue
from xlac.schedule.gpu import blocks, skinny, specialized, split, tensor_cores, warpgroups
from xlac.schedule.gpu.matmul import Matmul
from xlac.schedule.gpu.product import Product, product
from xlac.schedule.gpu.results import Stores
from xlac.schedule.group import Group, Launching, Packed
from xlac.schedule.operands import View
from xlac_sdk.build import Builder
from xlac_sdk.target import Target


def launches(group: Group, target: Target, name: str, c: Contraction, after: Epilogue, right: View) -> list[Launching]:
    """The kernels of a contraction and its epilogue. `right` is the view that the right operand came from."""
    if right.compute is not None:
        c = replace(c, right=_computed(group, c.right, right))
    p = product(c, after)
    elements = Elements(Builder(), group, target)
    if skinny.pays(p):
        skinny.Skinny(elements, after, p, skinny.share(p, target), target).write()
        return [elements.launch(name, cost.work(group))]
    tiled = _tiled(p, target)
    parts = split.parts(p, tiled.blocks, tiled.step, target.processors or blocks.PROCESSORS)
    if parts == 1:
        tiled.write(elements, after, p)
        return [elements.launch(name, cost.work(group))]
    cut = split.split(p, parts)
    found = split.partial(cut)
    tiled.write(elements, found, cut)
    finishing = Elements(Builder(), group, target)
    split.finish(finishing, after, p, found, target)
    return [elements.launch(f"{name}_parts", cost.work(group)), finishing.launch(name)]


@dataclass(frozen=True, slots=True)
class _Tiled:
    """A kernel in tiles: how many blocks it has, how much of the sum a tile covers, and what writes it."""

    blocks: int
    step: int
    write: Callable[[Elements, Stores, Product], None]


def _tiled(p: Product, target: Target) -> _Tiled:
    """On tensor cores, where they take the operands as they are; else on ordinary arithmetic."""
    roles = specialized.choose(p, target)
    if roles:

        def by_roles(elements: Elements, after: Stores, p: Product) -> None:
            specialized.Specialized(elements, after, p, roles, target).write()

        return _Tiled(_blocks(p, roles.rows, roles.columns), roles.step, by_roles)
    groups = warpgroups.choose(p, target)
    if groups:

        def by_groups(elements: Elements, after: Stores, p: Product) -> None:
            warpgroups.WarpGroups(elements, after, p, groups, target).write()

        return _Tiled(_blocks(p, groups.rows, groups.columns), groups.step, by_groups)
    dtype = tensor_cores.operand(p, target)
    cores = tensor_cores.choose(target, p, dtype) if dtype else None
    if dtype and cores:

        def by_cores(elements: Elements, after: Stores, p: Product) -> None:
            tensor_cores.TensorCores(elements, after, p, cores, dtype, target).write()

        return _Tiled(_blocks(p, cores.rows, cores.columns), cores.step, by_cores)
    tile = blocks.choose(target, p)

    def plain(elements: Elements, after: Stores, p: Product) -> None:
        Matmul(elements, after, p, tile, target).write()

    return _Tiled(_blocks(p, tile.rows, tile.columns), tile.step, plain)


def _blocks(p: Product, rows: int, columns: int) -> int:
    batch, down, across, _ = p.usual
    return batch * -(-down // rows) * -(-across // columns)


def _computed(group: Group, source: Source, view: View) -> Source:
    """An operand that is computed from a constant while compiling."""
    assert isinstance(source.value, Node) and view.compute is not None
    compute = view.compute
    (size,) = static((group.hero.inputs[1].type.size,))

    def make(array: Array) -> Array:
        return np.ascontiguousarray(compute(array)).reshape(-1).astype(source.dtype.numpy, copy=False)

    made = Packed(source.dtype, size, (source.value,), make, f"as {source.dtype} {view.key}")
    return Source(made, source.dtype, source.offset)
