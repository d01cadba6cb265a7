"""Results that are views, of one value or of an argument: they come back as PyTorch's own would, on
memory that they share.
"""

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

# a view that is alone on its value is computed by itself where it has at most one of so many of the
# elements
SHARE = 2


@dataclass(frozen=True, slots=True)
class ViewGeometry:
    """Where the elements of a view lie in the memory of what it is a view of: PyTorch's sizes,
    strides and offset.
    """

    shape: Shape
    strides: tuple[Dim, ...]
    offset: Dim

    def fixed(self, static: Callable[[Shape], tuple[int, ...]]) -> ViewGeometry:
        """The same at the sizes of a call."""
        return ViewGeometry(static(self.shape), static(self.strides), static((self.offset,))[0])

    def of(self, base: torch.Tensor) -> torch.Tensor:
        """The view; sizes are known."""
        return base.as_strided(self.shape, self.strides, base.storage_offset() + self.offset)

    def copied(self, value: torch.Tensor) -> torch.Tensor:
        """A dense tensor's elements in memory of this geometry, of which nobody else has a view."""
        if not value.numel():
            return value.as_strided(self.shape, self.strides)
        room = (
            self.offset
            + 1
            + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))
        )
        found = torch.empty(room, dtype=value.dtype).as_strided(
            self.shape, self.strides, self.offset
        )
        return found.copy_(value)


def only_views(module: GraphModule) -> bool:
    """Whether a graph computes nothing: its results are arguments and views of them."""
    results = [
        fx
        for fx in output_of(module)
        if isinstance(fx, FxNode) and isinstance(fx.meta.get("val"), torch.Tensor)
    ]
    return bool(results) and all(root(fx).op == "placeholder" for fx in results)


def shared(results: Sequence[Any]) -> dict[FxNode, FxNode]:
    """Of the results of a graph, those that come back as views, and of what: not those that are
    cheaper by themselves.
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
        if base is not fx and is_dense(base.meta["val"]) and _pays(fx, base, counts[base])
    }


def overlaps(tensor: torch.Tensor) -> bool:
    """Whether some elements may lie at one place, as those of an expanded tensor do. Sizes count as
    the example has them.
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


def _pays(fx: FxNode, base: FxNode, count: int) -> bool:
    if base.op == "placeholder" or count > 1:
        return True
    value = fx.meta["val"]
    if is_dense(value):
        return False  # it has memory of its own in that order
    if overlaps(value):
        return True
    return SHARE * number(value.numel()) > number(base.meta["val"].numel())
