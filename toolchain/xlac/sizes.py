"""Finds the values of symbolic sizes from the shapes of arrays, and compiles for each set of them on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlac.arrays import as_array
from xlac.compiled import Compiled
from xlac.ir.dims import Dim, Sym, Symbol, substitute
from xlac.ir.graph import Graph
from xlac.ops.leaf import Param, asked, param
from xlac.programs import Programs
from xlac_sdk.backend import Array
from xlac_sdk.source import Diagnostic, SourceError


def solve(graph: Graph, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The value of every symbol that the shapes of the named inputs determine.

    Raises SourceError when a rank, a fixed size or two uses of one symbol disagree, or a bound is violated.
    """
    found: dict[str, int] = {}
    params = [n.op for n in graph.inputs if isinstance(n.op, Param) and n.op.name in shapes]
    for op in params:
        if len(shapes[op.name]) != op.type.rank:
            raise _wrong(f"input '{op.name}' must have rank {op.type.rank}, as in {op.type}, not {shapes[op.name]}")
        for dim, size in zip(op.type.shape, shapes[op.name], strict=True):
            symbol = _alone(dim)
            if symbol is not None and symbol[0].name not in found and size % symbol[1] == 0:
                found[symbol[0].name] = size // symbol[1]
                _check(symbol[0], size // symbol[1])
    for op in params:
        for axis, (dim, size) in enumerate(zip(op.type.shape, shapes[op.name], strict=True)):
            value = substitute(dim, found)
            if value != size:
                known = ", ".join(f"{k}={v}" for k, v in found.items())
                where = f"size {dim}" + (f" is {value} with {known}" if isinstance(dim, Sym) else "")
                raise _wrong(f"input '{op.name}' has {size} at axis {axis}, but {where} in {op.type}")
    return found


def _alone(dim: Dim) -> tuple[Symbol, int] | None:
    """A size that is `factor * symbol`."""
    if isinstance(dim, Sym) and len(dim.parts) == 1:
        atoms, factor = dim.parts[0]
        if len(atoms) == 1 and isinstance(atoms[0], Symbol):
            return atoms[0], factor
    return None


def _check(symbol: Symbol, value: int) -> None:
    if not symbol.min <= value <= symbol.max:
        raise _wrong(f"size {symbol.name}={value} is outside its bounds {symbol.min}..{symbol.max}")
    if value % symbol.multiple_of:
        raise _wrong(f"size {symbol.name}={value} is not a multiple of {symbol.multiple_of}")


def _wrong(message: str) -> SourceError:
    return SourceError(Diagnostic("XL6003", message))


class Specializing:
    """A model with open sizes: compiled for each set of sizes when first called with it.

    Called like `Compiled`. At most `programs.PROGRAMS` are kept.
    """

    def __init__(self, graph: Graph, compile_for: Callable[[Mapping[str, int]], Compiled]) -> None:
        self.graph = graph
        self._compile_for = compile_for
        self._programs: Programs[Compiled] = Programs()
        self._names = tuple(op.name for op in map(param, asked(graph)))

    @property
    def inputs(self) -> tuple[str, ...]:
        return self._names

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.graph.outputs)

    @property
    def programs(self) -> int:
        """How many programs are compiled and kept."""
        return len(self._programs)

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        given = {**dict(zip(self._names, arrays, strict=False)), **named}
        given = {name: value if isinstance(value, int | float) else as_array(value) for name, value in given.items()}
        program = self.specialize(given)
        return program(*arrays[len(self._names) :], **given)

    def run(self, inputs: Mapping[str, Any], out: Mapping[str, Array]) -> None:
        self.specialize({name: as_array(value) for name, value in inputs.items()}).run(inputs, out)

    def specialize(self, inputs: Mapping[str, Any]) -> Compiled:
        """The program for the shapes of these arrays, compiled if it is not there yet."""
        shapes = {name: tuple(getattr(value, "shape", ())) for name, value in inputs.items()}
        sizes = solve(self.graph, shapes)
        return self._programs.get(tuple(sorted(sizes.items())), lambda: self._compile_for(sizes))
