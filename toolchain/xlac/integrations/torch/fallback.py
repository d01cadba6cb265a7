"""Graphs that xlac has only in part: what it has becomes subgraphs of their own, the rest stays
with PyTorch.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from xlac.frontends.torch.errors import UnsupportedNode, refused
from xlac.frontends.torch.fx_nodes import output_of
from xlac.frontends.torch.table import BUILDERS
from xlac.integrations.torch.resizing import Resizing
from xlac.integrations.torch.subgraph import Options, Subgraph
from xlac.integrations.torch.views import only_views
from xlac.support.failures import CheckFailed
from xlac_sdk.source import XlacError

PREFIX = "xlac_"
Run = Callable[[list[Any]], Any]


class FallbackWarning(UserWarning):
    """Part of a model runs in PyTorch itself, because xlac cannot say it."""


class _Supported(OperatorSupportBase):
    def __init__(self, bad: set[FxNode]) -> None:
        self.bad = bad

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: FxNode) -> bool:
        if node.op != "call_function" or node in self.bad:
            return False
        return isinstance(node.meta.get("val"), torch.Tensor | tuple | list)


def compiled(module: GraphModule, options: Options) -> Run:
    """A graph as a function of the list of its arguments. Raises SourceError where falling back is
    not allowed.
    """
    if not _computes(module) or only_views(module):
        return _boxed(_eager(module))
    whole = Subgraph(module, options)
    if not whole.unsupported and not whole.untold:
        return _boxed(_guarded(module, options, whole.program))
    resizing = Resizing(module, options)
    whole = resizing.example()
    if not whole.unsupported:
        return _boxed(_guarded(module, options, lambda: resizing))
    _tell(refused(whole.unsupported, sorted(BUILDERS)), options)
    return _boxed(_eager(_split(module, whole.unsupported, options)))


def _tell(error: XlacError, options: Options) -> None:
    """Warns that PyTorch takes over, or raises the error where that is not allowed."""
    if not options.fallback:
        raise error
    warnings.warn(
        f"part of the model runs in PyTorch, not in xlac:\n{error}", FallbackWarning, stacklevel=3
    )


def _guarded(module: GraphModule, options: Options, make: Callable[[], Run]) -> Run:
    """A program, or where compiling it fails, at once or when sizes are known, the graph in
    PyTorch.
    """
    eager = _eager(module)
    try:
        program = make()
    except XlacError as error:
        _tell(error, options)
        return eager

    def run(args: list[Any]) -> Any:
        try:
            return program(args)
        except CheckFailed:  # that is an answer
            raise
        except XlacError as error:
            _tell(error, options)
            return eager(args)

    return run


def _split(
    module: GraphModule, unsupported: list[UnsupportedNode], options: Options
) -> GraphModule:
    bad = {u.node for u in unsupported}
    for node in module.graph.nodes:  # in order, so that parts of parts follow
        if node.target is operator.getitem and node.args[0] in bad:
            bad.add(node)
    partitioner = CapabilityBasedPartitioner(
        module, _Supported(bad), allows_single_node_partition=True
    )
    partitions = partitioner.propose_partitions()
    split = partitioner.fuse_partitions(partitions, prefix=PREFIX)
    for node in list(split.graph.nodes):
        if node.op == "call_module" and str(node.target).startswith(PREFIX):
            inner = split.get_submodule(str(node.target))
            assert isinstance(inner, GraphModule)
            part = replace(options, visible=_visible(split, node, options.visible))
            setattr(split, str(node.target), _Module(compiled(inner, part), _single(inner)))
    split.recompile()
    return split


def _visible(module: GraphModule, part: FxNode, visible: frozenset[int] | None) -> frozenset[int]:
    """Which of the results of a part are results of the whole that the user sees."""
    seen = {
        fx for number, fx in enumerate(output_of(module)) if visible is None or number in visible
    }
    if part in seen:
        return frozenset({0})
    return frozenset(
        user.args[1] for user in part.users if user in seen and user.target is operator.getitem
    )


class _Module(torch.nn.Module):
    """A program in the place of a submodule."""

    def __init__(self, program: Run, single: bool) -> None:
        super().__init__()
        self.program, self.single = program, single

    def forward(self, *args: Any) -> Any:
        found = self.program(list(args))
        return found[0] if self.single else found


def _single(module: GraphModule) -> bool:
    """Whether a graph gives one value and not a tuple."""
    (last,) = (n for n in module.graph.nodes if n.op == "output")
    return not isinstance(last.args[0], tuple | list)


def _computes(module: GraphModule) -> bool:
    return any(n.op == "call_function" for n in module.graph.nodes)


def _eager(module: GraphModule) -> Run:
    """A graph in PyTorch. Its results are a sequence, as a program's are."""
    return (lambda args: (module(*args),)) if _single(module) else lambda args: module(*args)


def _boxed(run: Run) -> Run:
    """Marks a function as taking its arguments in one list, as AOTAutograd wants."""

    def boxed(args: list[Any]) -> Any:
        return run(args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed
