"""Decides how a contraction is computed on a GPU: by which kernel, and in which tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.schedule import cost
from xlac.schedule.contraction import Contraction, Source
from xlac.schedule.elements import Elements
from xlac.schedule.epilogue import Epilogue
from xlac.schedule.gpu import blocks, skinny, tensor_cores
from xlac.schedule.gpu.matmul import Matmul
from xlac.schedule.gpu.product import product
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
    dtype = tensor_cores.operand(p, target)
    tile = tensor_cores.choose(target, p, dtype) if dtype else None
    if dtype and tile:
        tensor_cores.TensorCores(elements, after, p, tile, dtype, target).write()
    else:
        Matmul(elements, after, p, blocks.choose(target, p), target).write()
    return [elements.launch(name, cost.work(group))]


def _computed(group: Group, source: Source, view: View) -> Source:
    """An operand that is computed from a constant while compiling."""
    assert isinstance(source.value, Node) and view.compute is not None
    compute = view.compute
    (size,) = static((group.hero.inputs[1].type.size,))

    def make(array: Array) -> Array:
        return np.ascontiguousarray(compute(array)).reshape(-1).astype(source.dtype.numpy, copy=False)

    made = Packed(source.dtype, size, (source.value,), make, f"as {source.dtype} {view.key}")
    return Source(made, source.dtype, source.offset)
