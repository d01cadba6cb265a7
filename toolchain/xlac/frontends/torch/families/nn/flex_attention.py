"""`flex_attention`: PyTorch's own definition of it, traced to ATen operations.

The functions of a score, and of positions, become operations on all scores at once, so a program
holds the matrix of scores. `blocked_attention` is for masks of several blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._higher_order_ops.flex_attention import math_attention
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from xlac.frontends.torch.errors import NotExpressible


def traced(
    node: FxNode, args: Sequence[Any], decompositions: Mapping[Any, Callable[..., Any]]
) -> tuple[GraphModule, list[Any]]:
    """The operation `node` as a graph of ATen operations, and the values of its inputs: the tensors
    among `args`, which are the node's arguments with values for nodes. The graph has the results of
    the operation. Raises NotExpressible where a size is an argument.
    """
    leaves, nest = pytree.tree_flatten(list(node.args))
    values, _ = pytree.tree_flatten(list(args))
    tensors = {
        number: leaf.meta["val"]
        for number, leaf in enumerate(leaves)
        if isinstance(leaf, FxNode) and isinstance(leaf.meta.get("val"), torch.Tensor)
    }
    fixed = [
        None if number in tensors else _constant(leaf, value)
        for number, (leaf, value) in enumerate(zip(leaves, values, strict=True))
    ]

    def function(*given: torch.Tensor) -> list[Any]:
        held = list(fixed)
        for number, tensor in zip(tensors, given, strict=True):
            held[number] = tensor
        return list(math_attention(*pytree.tree_unflatten(held, nest)))

    mode = detect_fake_mode(list(tensors.values()))
    assert mode is not None
    with mode, torch.no_grad():
        trace = make_fx(function, decomposition_table=dict(decompositions))
        module = trace(*tensors.values())
    return module, [values[number] for number in tensors]


def _constant(leaf: Any, value: Any) -> Any:
    """An argument that is no tensor. Raises NotExpressible for a size that is open."""
    if not isinstance(leaf, FxNode):
        return leaf
    if isinstance(value, GraphModule | int | float | None):
        return value
    raise NotExpressible("an open size among its arguments")
