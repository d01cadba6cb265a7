"""Results that are views of a common value or of an argument: they share memory, as in PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from xlac.frontends.torch.aliases import root
from xlac.frontends.torch.fx_nodes import output_of
from xlac.frontends.torch.layout import is_dense, number
from xlac.ir.dims import Dim, Shape

# a view that is the only result on its value is computed by itself (not as a view) where it has at
# most 1 / SHARE of the value's elements, since a view would keep the whole value alive
SHARE = 2


@dataclass(frozen=True, slots=True)
class ViewGeometry:
    """The sizes, strides and offset (in elements) of a view in the memory of its base."""

    shape: Shape
    strides: tuple[Dim, ...]
    offset: Dim

    def fixed(self, static: Callable[[Shape], tuple[int, ...]]) -> ViewGeometry:
        """The geometry at the sizes of a call."""
        return ViewGeometry(static(self.shape), static(self.strides), static((self.offset,))[0])

    def of(self, base: torch.Tensor) -> torch.Tensor:
        """The view of a base tensor. Sizes must be fixed."""
        return base.as_strided(self.shape, self.strides, base.storage_offset() + self.offset)

    def copied(self, value: torch.Tensor) -> torch.Tensor:
        """A copy of a dense tensor in new memory of this geometry."""
        if not value.numel():
            return value.as_strided(self.shape, self.strides)
        room = (
            self.offset
            + 1
            + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        )
        memory = torch.empty(room, dtype=value.dtype).as_strided(
            self.shape, self.strides, self.offset
        )
        return memory.copy_(value)


def only_views(module: GraphModule) -> bool:
    """Whether a graph computes nothing: its results are arguments and views of these."""
    results = [
        fx
        for fx in output_of(module)
        if isinstance(fx, FxNode) and isinstance(fx.meta.get("val"), torch.Tensor)
    ]
    return bool(results) and all(root(fx).op == "placeholder" for fx in results)


def shared(results: Sequence[Any]) -> dict[FxNode, FxNode]:
    """The results of a graph that are returned as views, with their bases. A view that is cheaper
    to compute by itself is not among them.
    """
    nodes = [
        fx
        for fx in results
        if isinstance(fx, FxNode) and isinstance(fx.meta.get("val"), torch.Tensor)
    ]
    roots = {fx: root(fx) for fx in nodes}
    counts = Counter(roots.values())
    return {
        fx: base
        for fx, base in roots.items()
        if base is not fx and is_dense(base.meta["val"]) and _worth_sharing(fx, base, counts[base])
    }


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether elements of a tensor may share memory, as in an expanded one. Open sizes are taken
    from the example.
    """
    axes = sorted(
        (number(step), number(size))
        for size, step in zip(tensor.shape, tensor.stride(), strict=True)
        if number(size) > 1
    )
    reach = 0
    for step, size in axes:
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False


def _worth_sharing(fx: FxNode, base: FxNode, count: int) -> bool:
    if base.op == "placeholder" or count > 1:
        return True
    value = fx.meta["val"]
    if is_dense(value):
        return False  # it has memory of its own in that order
    if overlaps(value):
        return True
    return SHARE * number(value.numel()) > number(base.meta["val"].numel())
