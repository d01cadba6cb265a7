"""Graphs whose sizes cannot all stay open: imported and compiled for each set of sizes at its first
call, or for sizes that are equal, where this is what leaves them open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule

from xlac.frontends.torch.fx_nodes import inputs_of
from xlac.integrations.torch.program import TensorProgram
from xlac.integrations.torch.subgraph import Options, Subgraph
from xlac.runtime.growing import LEAST
from xlac.runtime.programs import Programs


class PerSizePrograms:
    """A graph with symbolic sizes as a function of the list of its arguments, with a program for
    each set of sizes.

    PyTorch has a symbol for each axis, though keys and values are always of one length. Where the
    graph can stay open with the sizes that are equal in a call as one, it is, for such calls.
    """

    def __init__(self, module: GraphModule, options: Options) -> None:
        self._module, self._options = module, options
        self._symbols = list(_symbols([n.meta.get("val") for n in inputs_of(module.graph)]))
        self._programs: Programs[TensorProgram] = Programs()
        # by the first of the equal sizes for each: None where the graph cannot be open
        self._alike: Programs[TensorProgram | None] = Programs()

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        sizes = tuple(
            args[at] if axis is None else args[at].shape[axis] for at, axis, _ in self._symbols
        )
        program = self._of_equal(sizes)
        if program is not None:
            return program(args)
        return self._programs.get(sizes, lambda: self._compile(sizes))(args)

    def _of_equal(self, sizes: tuple[int, ...]) -> TensorProgram | None:
        """The program for open sizes of which the same are equal."""
        first: dict[int, int] = {}
        alike = tuple(
            first.setdefault(size, number) if size >= LEAST else number
            for number, size in enumerate(sizes)
        )
        if alike == tuple(range(len(sizes))):
            return None
        return self._alike.get(alike, lambda: self._open(alike))

    def _open(self, alike: tuple[int, ...]) -> TensorProgram | None:
        symbols = [symbol for _, _, symbol in self._symbols]
        equal = {symbols[n]: symbols[at] for n, at in enumerate(alike) if n != at}
        graph = Subgraph(self._module, self._options, equal)
        able = not graph.unsupported and not graph.undetermined_sizes
        return graph.program() if able else None

    def example(self) -> Subgraph:
        """The graph at the sizes of the example with which it was captured."""
        return Subgraph(self._module, self._options, dict(_hints(self._module)))

    def _compile(self, sizes: tuple[int, ...]) -> TensorProgram:
        values = {symbol: size for (_, _, symbol), size in zip(self._symbols, sizes, strict=True)}
        return Subgraph(self._module, self._options, values).program()


def _symbols(metas: list[Any]) -> Iterator[tuple[int, int | None, Any]]:
    """Where each symbol can be read: the number of an argument, an axis of it (None if the argument
    is the size itself), and the symbol.
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
