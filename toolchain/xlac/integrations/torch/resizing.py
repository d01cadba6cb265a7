"""Graphs whose sizes cannot stay open: imported and compiled again for each set of sizes that a
call brings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule

from xlac.frontends.torch.fx_nodes import inputs_of
from xlac.integrations.torch.program import TensorProgram
from xlac.integrations.torch.subgraph import Options, Subgraph
from xlac.runtime.programs import Programs


class Resizing:
    """A graph with symbolic sizes, as a function of the list of its arguments."""

    def __init__(self, module: GraphModule, options: Options) -> None:
        self._module, self._options = module, options
        self._symbols = list(_symbols([n.meta.get("val") for n in inputs_of(module.graph)]))
        self._programs: Programs[TensorProgram] = Programs()

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        sizes = tuple(
            args[at] if axis is None else args[at].shape[axis] for at, axis, _ in self._symbols
        )
        return self._programs.get(sizes, lambda: self._made(sizes))(args)

    def example(self) -> Subgraph:
        """The graph at the sizes of the example that it was captured with."""
        return Subgraph(self._module, self._options, dict(_hints(self._module)))

    def _made(self, sizes: tuple[int, ...]) -> TensorProgram:
        values = {symbol: size for (_, _, symbol), size in zip(self._symbols, sizes, strict=True)}
        return Subgraph(self._module, self._options, values).program()


def _symbols(metas: list[Any]) -> Iterator[tuple[int, int | None, Any]]:
    """Where each symbol can be read: the number of an argument, and its axis unless it is a size
    itself.
    """
    seen = set()
    for at, meta in enumerate(metas):
        axes: list[tuple[int | None, Any]] = [(None, meta)]
        if isinstance(meta, torch.Tensor):
            axes = list(enumerate(meta.shape))
        for axis, size in axes:
            if (
                isinstance(size, torch.SymInt)
                and size.node.expr.is_Symbol
                and size.node.expr not in seen
            ):
                seen.add(size.node.expr)
                yield at, axis, size.node.expr


def _hints(module: GraphModule) -> Iterator[tuple[Any, int]]:
    for node in module.graph.nodes:
        meta = node.meta.get("val")
        sizes = meta.shape if isinstance(meta, torch.Tensor) else (meta,)
        for size in sizes:
            if isinstance(size, torch.SymInt):
                known = size.node.shape_env.backed_var_to_val
                yield from ((s, known[s]) for s in size.node.expr.free_symbols if s in known)
