"""Arguments of `as_strided` and similar operations, which address memory; values have none here, so
they are rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.fx import Node as FxNode

from xlac.frontends.torch.aliases import root
from xlac.frontends.torch.complex_tensors import ComplexTensor
from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.layout import is_dense, number, order
from xlac.frontends.torch.sizes import Sizes
from xlac.ops import build


def strided(node: FxNode, args: Any, values: Mapping[FxNode, Any], sizes: Sizes) -> list[Any]:
    """The arguments of as_strided, which addresses memory: the base tensor is given in memory
    order.
    """
    given = node.all_input_nodes[0]
    base = root(given)
    meta = base.meta["val"]
    perm = order(meta)
    whole = values[base]
    if meta.dtype != given.meta["val"].dtype:
        raise NotExpressible("the memory that it reads holds elements of another type")
    if not is_dense(meta) or whole is None:
        raise NotExpressible("the memory that it reads has gaps")
    size, stride, *offset = args[1:]
    start = (
        offset[0]
        if offset and offset[0] is not None
        else sizes.dim(given.meta["val"].storage_offset())
    )
    at = start - sizes.dim(meta.storage_offset())
    last = at + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if isinstance(at, int) and (at < 0 or (isinstance(last, int) and last >= number(meta.numel()))):
        raise NotExpressible("it reads memory outside of the tensor that it is given")
    return [_moved(whole, perm), size, stride, at]


def scattered(node: FxNode, args: Any, sizes: Sizes) -> list[Any]:
    """The arguments of as_strided_scatter, its tensor in memory order, with the order of its axes
    there (None: as they are). Raises NotExpressible.
    """
    x, source, size, stride, *offset = args
    meta = node.all_input_nodes[0].meta["val"]
    if not is_dense(meta) or number(meta.storage_offset()):
        raise NotExpressible("the memory that it writes has gaps")
    perm = order(meta)
    at = offset[0] if offset and offset[0] is not None else 0
    last = at + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if isinstance(last, int) and last >= number(meta.numel()):
        raise NotExpressible("it writes memory outside of the tensor that it is given")
    return [_moved(x, perm), source, size, stride, at, perm]


def _moved(x: Any, perm: Sequence[int] | None) -> Any:
    """A tensor with its axes in another order, or as they are."""
    if perm is None:
        return x
    if isinstance(x, ComplexTensor):
        return x.each(lambda part: build.transpose(part, perm))
    return build.transpose(x, perm)
