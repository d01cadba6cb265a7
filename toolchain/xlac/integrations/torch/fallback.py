"""Partitions graphs that xlac supports only in part: supported subgraphs are compiled, the rest
runs in PyTorch.
"""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from xlac.frontends.torch.errors import EXCHANGES, UnsupportedNode, refused
from xlac.frontends.torch.families.nn import checkpoints
from xlac.frontends.torch.fx_nodes import CHECKS, inputs_of, name_of, output_of
from xlac.frontends.torch.table import BUILDERS
from xlac.integrations.torch.per_size import PerSizePrograms, free_symbols, sources
from xlac.integrations.torch.subgraph import Options, Subgraph
from xlac.integrations.torch.views import only_views
from xlac.support.failures import CheckFailed
from xlac_sdk.source import XlacError

PREFIX = "xlac_"
Run = Callable[[list[Any]], Any]


class FallbackWarning(UserWarning):
    """Part of a model runs in PyTorch, because xlac does not support it."""


ORDERED = CHECKS | {"with_effects"}
"""Effects and the tokens that order them. A program has neither, so that where parts of a graph run
in PyTorch, they do too.
"""


class _Supported(OperatorSupportBase):
    def __init__(self, bad: set[FxNode]) -> None:
        self.bad = bad

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: FxNode) -> bool:
        if node.op != "call_function" or node in self.bad or name_of(node) in ORDERED:
            return False
        return isinstance(node.meta.get("val"), torch.Tensor | tuple | list)


def compiled(module: GraphModule, options: Options) -> Run:
    """Compiles a graph to a function of the list of its arguments; what is unsupported runs in
    PyTorch, with a warning. Raises SourceError where `options.fallback` is false. Collectives of
    torch.distributed always run in PyTorch.
    """
    checkpoints.annotate(module)
    if not _computes(module) or only_views(module):
        return _boxed(_eager(module))
    whole = Subgraph(module, options)
    if not whole.unsupported and not whole.undetermined_sizes:
        return _boxed(_guarded(module, options, whole.program))
    by_size = PerSizePrograms(module, options)
    whole = by_size.example()
    if not whole.unsupported:
        return _boxed(_guarded(module, options, lambda: by_size))
    computing = [one for one in whole.unsupported if not _exchanges(one.node)]
    if computing:
        _warn_or_raise(refused(computing, sorted(BUILDERS)), options)
    return _boxed(_eager(_split(module, whole.unsupported, options)))


def frozen(module: GraphModule, options: Options, static: Sequence[int]) -> Run:
    """The same, compiled at the first call with the values that the arguments at `static` have
    then: constants from then on.
    """
    ready: list[Run] = []
    lock = threading.Lock()

    def run(args: list[Any]) -> Any:
        if not ready:
            with lock:
                if not ready:
                    values = {n: args[n].detach() for n in static}
                    ready.append(compiled(module, replace(options, frozen=values)))
        return ready[0](args)

    return _boxed(run)


def _exchanges(node: FxNode) -> bool:
    """Whether an operation only exchanges values with other processes, which is PyTorch's work."""
    return name_of(node).startswith(EXCHANGES)


def _warn_or_raise(error: XlacError, options: Options) -> None:
    """Warns that PyTorch runs part of the model, or raises `error` if fallback is not allowed."""
    if not options.fallback:
        raise error
    warnings.warn(
        f"part of the model runs in PyTorch, not in xlac:\n{error}", FallbackWarning, stacklevel=3
    )


def _guarded(module: GraphModule, options: Options, make: Callable[[], Run]) -> Run:
    """A program; or the graph in PyTorch, where compilation fails, now or at a call (for new
    sizes).
    """
    eager, states = _eager(module), checkpoints.states(module)
    try:
        program = make()
    except XlacError as error:
        _warn_or_raise(error, options)
        return eager

    def run(args: list[Any]) -> Any:
        if not all(checkpoints.is_ours(args[n]) for n in states):
            return eager(args)  # as PyTorch ran the forward pass
        try:
            return program(args)
        except CheckFailed:  # a result of the program, not a failure to compile it
            raise
        except XlacError as error:
            _warn_or_raise(error, options)
            return eager(args)

    return run


def _split(
    module: GraphModule, unsupported: list[UnsupportedNode], options: Options
) -> GraphModule:
    bad = {u.node for u in unsupported}
    for node in module.graph.nodes:  # in topological order: items of items are marked too
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
            _show_sizes(split, node, inner)
            seen = _visible_results(split, node, options.visible)
            part = replace(options, visible=seen, frozen={})  # other arguments, other positions
            setattr(split, str(node.target), _Module(compiled(inner, part), _single(inner)))
    split.recompile()
    return split


def _show_sizes(whole: GraphModule, call: FxNode, part: GraphModule) -> None:
    """Gives a part the open sizes that its tensors have but its arguments do not show, where the
    whole graph has them as arguments: an argument of (n + 1) // 2 rows does not say what n is.
    """
    missing = {symbol for node in part.graph.nodes for symbol in free_symbols(node.meta.get("val"))}
    missing -= {
        source.symbol for source in sources([i.meta.get("val") for i in inputs_of(part.graph)])
    }
    for place in inputs_of(whole.graph):
        value = place.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr in missing:
            missing.discard(value.node.expr)
            with part.graph.inserting_before(next(iter(reversed(part.graph.nodes)))):
                part.graph.placeholder(place.name).meta["val"] = value
            call.args = (*call.args, place)
    part.recompile()


def _visible_results(
    module: GraphModule, part: FxNode, visible: frozenset[int] | None
) -> frozenset[int]:
    """The numbers of those results of a part that are results of the whole graph and visible."""
    seen = {
        fx for number, fx in enumerate(output_of(module)) if visible is None or number in visible
    }
    if part in seen:
        return frozenset({0})
    return frozenset(
        user.args[1] for user in part.users if user in seen and user.target is operator.getitem
    )


class _Module(torch.nn.Module):
    """A program as a submodule of the partitioned graph."""

    def __init__(self, program: Run, single: bool) -> None:
        super().__init__()
        self.program, self.single = program, single

    def forward(self, *args: Any) -> Any:
        results = self.program(list(args))
        return results[0] if self.single else results


def _single(module: GraphModule) -> bool:
    """Whether a graph returns one value and not a tuple."""
    (last,) = (n for n in module.graph.nodes if n.op == "output")
    return not isinstance(last.args[0], tuple | list)


def _computes(module: GraphModule) -> bool:
    return any(n.op == "call_function" for n in module.graph.nodes)


def _eager(module: GraphModule) -> Run:
    """A graph run by PyTorch, with its results in a sequence, as a program's are."""
    return (lambda args: (module(*args),)) if _single(module) else lambda args: module(*args)


def _boxed(run: Run) -> Run:
    """Marks a function as taking its arguments in one list, the convention of AOTAutograd."""

    def boxed(args: list[Any]) -> Any:
        return run(args)

    boxed._boxed_call = True  # type: ignore[attr-defined]
    return boxed
