"""Graphs whose sizes cannot all stay open: imported and compiled for each set of sizes at its first
call, or for sizes that are equal, where this is what leaves them open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
        self._symbols = list(sources([n.meta.get("val") for n in inputs_of(module.graph)]))
        self._programs: Programs[TensorProgram] = Programs()
        # by the first of the equal sizes for each: None where the graph cannot be open
        self._alike: Programs[TensorProgram | None] = Programs()

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        sizes = tuple(source.of(args) for source in self._symbols)
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
        symbols = [source.symbol for source in self._symbols]
        equal = {symbols[n]: symbols[at] for n, at in enumerate(alike) if n != at}
        graph = Subgraph(self._module, self._options, equal)
        able = not graph.unsupported and not graph.undetermined_sizes
        return graph.program() if able else None

    def example(self) -> Subgraph:
        """The graph at the sizes of the example with which it was captured."""
        return Subgraph(self._module, self._options, dict(_hints(self._module)))

    def _compile(self, sizes: tuple[int, ...]) -> TensorProgram:
        pairs = zip(self._symbols, sizes, strict=True)
        values = {source.symbol: size for source, size in pairs}
        return Subgraph(self._module, self._options, values).program()


@dataclass(frozen=True, slots=True)
class SizeSource:
    """Where a symbol can be read: the number of an argument, and an axis of it (None if the
    argument is a size itself), of which the size is `scale` times the symbol plus `offset`.
    """

    symbol: Any
    argument: int
    axis: int | None
    scale: int = 1
    offset: int = 0

    def of(self, args: Sequence[Any]) -> int:
        """The value of the symbol in a call."""
        given = args[self.argument]
        size = given if self.axis is None else given.shape[self.axis]
        return int((size - self.offset) // self.scale)


def sources(metas: list[Any]) -> Iterator[SizeSource]:
    """Where each symbol can be read: where a size is the symbol, else where it is computed from
    this symbol alone. A part of a graph may get nothing but such a value of another part.
    """
    sizes: list[tuple[int, int | None, Any]] = []
    for at, meta in enumerate(metas):
        axes = enumerate(meta.shape) if isinstance(meta, torch.Tensor) else [(None, meta)]
        for axis, size in axes:
            if isinstance(size, torch.SymInt):
                sizes.append((at, axis, size.node.expr))
    sizes.sort(key=lambda size: not size[2].is_Symbol)
    seen: set[Any] = set()
    for at, axis, expr in sizes:
        if len(expr.free_symbols) != 1 or expr.free_symbols <= seen:
            continue
        (symbol,) = expr.free_symbols
        scale, offset = expr.coeff(symbol), expr.subs(symbol, 0)
        if scale.is_Integer and scale > 0 and expr.expand() == scale * symbol + offset:
            seen.add(symbol)
            yield SizeSource(symbol, at, axis, int(scale), int(offset))


def free_symbols(value: Any) -> frozenset[Any]:
    """The symbols in the sizes of a tensor, or of several, or in a size."""
    if isinstance(value, tuple | list):
        return frozenset[Any]().union(*map(free_symbols, value))
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    found = [size.node.expr.free_symbols for size in sizes if isinstance(size, torch.SymInt)]
    return frozenset[Any]().union(*found)


def _hints(module: GraphModule) -> Iterator[tuple[Any, int]]:
    for node in module.graph.nodes:
        meta = node.meta.get("val")
        sizes = meta.shape if isinstance(meta, torch.Tensor) else (meta,)
        for size in sizes:
            if isinstance(size, torch.SymInt):
                known = size.node.shape_env.backed_var_to_val
                yield from ((s, known[s]) for s in size.node.expr.free_symbols if s in known)
