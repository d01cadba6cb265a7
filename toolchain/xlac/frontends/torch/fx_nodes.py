"""Accessors for nodes and graphs of torch.fx: names, origins, inputs, results, element types."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx import Node as FxNode

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.tensors import DTYPES, PARTS
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

CHECKS = {
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "prims._make_token.default",
    "prims._sink_tokens.default",
}
"""Assertions that are dropped: bounds of sizes are checked when the program is called. Tokens order
effects.
"""

EFFECTS = {"aten._linalg_check_errors.default"}
"""Effects that are dropped: matrices that eager mode refuses give infinities and NaNs."""


def known_dtype(dtype: torch.dtype) -> DType:
    """xlac's element type; of complex numbers that of a part. Raises NotExpressible if there is
    none.
    """
    if dtype in PARTS:
        return PARTS[dtype]
    if dtype not in DTYPES:
        raise NotExpressible(f"xlac has no element type {str(dtype).removeprefix('torch.')}")
    return DTYPES[dtype]


def dtype_of(tensor: torch.Tensor) -> DType:
    """The element type of a dense tensor on the CPU, or of the parts of a complex one. Raises
    NotExpressible.
    """
    if tensor.device.type != "cpu":
        raise NotExpressible(f"a tensor on the device {tensor.device}")
    if tensor.layout is not torch.strided:
        raise NotExpressible(f"a tensor of layout {str(tensor.layout).removeprefix('torch.')}")
    return known_dtype(tensor.dtype)


def tensors_in(meta: Any) -> list[torch.Tensor]:
    """The tensors among a node's results."""
    many = meta if isinstance(meta, tuple | list) else (meta,)
    return [m for m in many if isinstance(m, torch.Tensor)]


def is_complex(meta: Any) -> bool:
    """Whether a node's results are complex tensors."""
    return any(tensor.is_complex() for tensor in tensors_in(meta))


def name_of(node: FxNode) -> str:
    """The name of a node's operation: `aten.add.Tensor`."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload | str):
        return str(target)
    name = getattr(target, "_name", None) or getattr(target, "__name__", None) or str(target)
    return str(name)


def read_results(node: FxNode) -> frozenset[int]:
    """The numbers of those results of an operation with several that the graph reads."""
    items = (user for user in node.users if user.target is operator.getitem and user.users)
    return frozenset(user.args[1] for user in items if isinstance(user.args[1], int))


def is_row_major(node: FxNode) -> bool:
    """Whether the example of a node's first argument is a tensor dense in row-major order."""
    first = node.args[0] if node.args else None
    meta = first.meta.get("val") if isinstance(first, FxNode) else None
    return isinstance(meta, torch.Tensor) and meta.layout is torch.strided and meta.is_contiguous()


def origin_of(node: FxNode) -> Origin:
    """The module path of a node, and its name: `encoder.layer.0.dense.addmm_3`."""
    stack: Any = node.meta.get("nn_module_stack") or {}
    path = ""
    for held, _ in stack.values():
        path = held if isinstance(held, str) else path
    path = path.removeprefix("L['self'].").removeprefix("L__self___")
    plain = path if path.replace(".", "").replace("_", "").isalnum() and path.isascii() else ""
    return Origin(f"{plain}.{node.name}" if plain else node.name)


def inputs_of(graph: Graph) -> list[FxNode]:
    """The placeholder nodes of a graph, in order."""
    return [n for n in graph.nodes if n.op == "placeholder"]


def output_of(module: GraphModule) -> Sequence[Any]:
    """The results of a graph, in order."""
    (last,) = (n for n in module.graph.nodes if n.op == "output")
    results = last.args[0]
    return results if isinstance(results, tuple | list) else (results,)
