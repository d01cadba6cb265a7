"""Samples of operations with one of their extents left open: what the tests of symbolic programs
are made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.debug.conformance import TOLERANCE
from xlac.driver import executable, lower
from xlac.ir.dims import Sym, Symbol, evaluate
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array, Op, Sample, ShapeError
from xlac.model import Model
from xlac.ops.control.control import Pick
from xlac.ops.sampling import draw
from xlac.ops.tensor.leaf import Param
from xlac.passes.specialize import substituted
from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SHAPES = ("shape", "sizes", "slice_sizes", "bound")  # attributes that hold extents


@dataclass(frozen=True, eq=False)
class Open:
    """An operation whose extents equal to `usual` are the symbol `n`, and arrays for that many."""

    name: str
    graph: Graph
    symbol: Symbol
    inputs: dict[str, Array]
    axes: dict[str, tuple[int, ...]]  # of each input: those that are open

    def at(self, size: int) -> dict[str, Array]:
        """The inputs for a size of at most twice the usual one, repeated or cut."""
        found = {}
        for name, array in self.inputs.items():
            for axis in self.axes[name]:
                array = np.take(np.concatenate((array, array), axis), np.arange(size), axis)
            found[name] = np.ascontiguousarray(array)
        return found

    def expected(self, size: int) -> dict[str, Array] | None:
        """What NumPy says, or None where the operation does not take this size."""
        try:
            graph = substituted(self.graph, {"n": size})
            if any(
                evaluate(n, {"n": size}) < 0
                for node in self.graph.nodes()
                for t in node.results
                for n in t.shape
            ):
                return None
            with np.errstate(all="ignore"):
                return interpret(graph, self.at(size), {})
        except (ShapeError, SourceError, ValueError, IndexError):
            return None

    def compiled(self, backend: Backend) -> Any:
        model = Model(self.graph, {}, {"n": self.symbol})
        return executable(lower(model, backend.target(Request())), backend)


def opened(op: type[Op], most: int = 6) -> Iterator[Open]:
    """Up to `most` ways to leave an extent of the operation's samples open, float samples first."""
    found = 0
    samples = sorted(op.samples(), key=lambda s: not (s.inputs and s.inputs[0].dtype is DType.F32))
    for number, sample in enumerate(samples):
        for usual in sorted(
            {n for t in sample.inputs for n in t.shape if isinstance(n, int) and 1 < n < 600}
        ):
            made = _opened(op, sample, usual, f"{op.mnemonic}-{number}-{usual}")
            if made is not None:
                yield made
                found += 1
                if found == most:
                    return


def _opened(op: type[Op], sample: Sample, usual: int, name: str) -> Open | None:
    symbol = Symbol("n", 0, 2 * usual, usual)
    size = Sym((((symbol,), 1),))
    changed = {
        key: _open(value, usual, size) if key in SHAPES else value
        for key, value in sample.attributes.items()
    }
    params = [
        Node.of(Param(f"x{i}", t.with_shape(_open(t.shape, usual, size))))
        for i, t in enumerate(sample.inputs)
    ]
    try:
        node = Node.of(op(**changed), *params)
    except (ShapeError, ValueError, TypeError):
        return None
    several = isinstance(node.types, tuple)
    outputs = {
        f"y{i}": Node(Pick(i), (node,), t) if several else node for i, t in enumerate(node.results)
    }
    inputs = {f"x{i}": array for i, array in enumerate(draw(sample))}
    axes = {
        f"x{i}": tuple(a for a, n in enumerate(t.shape) if n == usual)
        for i, t in enumerate(sample.inputs)
    }
    return Open(name, Graph("opened", tuple(params), outputs), symbol, inputs, axes)


def _open(value: Any, usual: int, size: Sym) -> Any:
    if isinstance(value, tuple):
        return tuple(size if part == usual else part for part in value)
    return size if value == usual else value


def difference(got: Array, want: Array) -> str:
    """What is wrong with a result; empty when its type and a few roundings explain the rest."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    relative, absolute = TOLERANCE.get(DType.of(want.dtype), (0.0, 0.0))
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.isclose(a, b, rtol=50 * relative, atol=50 * absolute, equal_nan=True)
    return "" if near.all() else f"{int((~near).sum())} of {near.size} elements differ"
