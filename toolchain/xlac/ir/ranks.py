"""Evaluates a graph for all ranks of a mesh at once: arrays have the axes of the mesh first.

A rank computes each operation on its own values; a collective (`ops/collective/`) is given those of
all ranks. So properties of partitioned graphs are tested in one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate, widened
from xlac.ir.op import Array, attributes


def interpret_ranks(
    graph: Graph,
    mesh: Sequence[tuple[str, int]],
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    float64: bool = False,
) -> dict[str, Array]:
    """Every output by name. `inputs` and `weights` are arrays by name whose first axes are those of
    `mesh`, one local array for each rank. With `float64` as `interpret`. Raises ValueError where
    ranks that exchange values take different ways.
    """
    sizes = tuple(size for _, size in mesh)
    given: dict[Node, Array] = {}
    for node in graph.nodes():
        if node.op.mnemonic == "param":
            about = attributes(node.op)
            source = (weights or {}) if about["kind"] == "weight" else inputs
            array = np.asarray(source[about["name"]])
            wanted = (*sizes, *node.shape)
            if array.shape != wanted:
                raise ValueError(f"{about['name']!r} is {wanted} with the mesh, got {array.shape}")
            given[node] = widened(array, float64)
    found = _Ranks(tuple(name for name, _ in mesh), sizes, float64).outputs(graph, given)
    return dict(zip(graph.outputs, found, strict=True))


class _Ranks:
    """Evaluates graphs on all ranks."""

    def __init__(self, names: tuple[str, ...], sizes: tuple[int, ...], float64: bool) -> None:
        self.names, self.sizes, self.float64 = names, sizes, float64

    def outputs(self, graph: Graph, given: Mapping[Node, Array]) -> list[Array]:
        """The outputs in order, given the arrays of parameters."""
        values: dict[Node, tuple[Array, ...]] = {n: (array,) for n, array in given.items()}
        for node in graph.nodes():
            if node not in values:
                values[node] = self._results(node, [values[i] for i in node.inputs])
        return [values[node][0] for node in graph.outputs.values()]

    def _results(self, node: Node, inputs: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
        across: Any = getattr(node.op, "across", None)
        if across is not None:
            with np.errstate(all="ignore"):
                found = across(*(results[0] for results in inputs))
            every = found if isinstance(found, tuple) else (found,)
            return tuple(widened(array, self.float64) for array in every)
        if any(map(_exchanges, node.op.bodies())):
            return self._control(node, [results[0] for results in inputs])
        results: list[tuple[Array, ...]] = []
        for rank in np.ndindex(*self.sizes):
            own = [tuple(array[rank] for array in results) for results in inputs]
            results.append(evaluate(node, own, self.float64))
        return tuple(self._all(one) for one in zip(*results, strict=True))

    def _all(self, ranks: Sequence[Array]) -> Array:
        """The arrays of all ranks as one."""
        return np.stack(ranks).reshape(*self.sizes, *ranks[0].shape)

    def _control(self, node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """A loop, a branch or a call whose bodies exchange values."""
        op: Any = node.op
        match op.mnemonic:
            case "scan":
                return self._scan(node, inputs)
            case "while":
                carry = list(inputs)
                while (going := self._decided(self._body(op.cond, carry)[0], node)).any():
                    carry = self._where(going, self._body(op.body, carry), carry)
                return tuple(carry)
            case "cond":
                last = len(op.branches) - 1
                chosen = self._decided(inputs[0], node)
                chosen = np.where((chosen < 0) | (chosen > last), last, chosen)
                ways = [(n, b) for n, b in enumerate(op.branches) if (chosen == n).any()]
                results = self._body(ways[0][1], inputs[1:])
                for number, branch in ways[1:]:
                    found = self._body(branch, inputs[1:])
                    results = self._where(chosen == number, found, results)
                return tuple(results)
            case "call":
                return tuple(self._body(op.body, inputs))
        raise ValueError(f"{op.mnemonic} has collectives inside")

    def _body(self, body: Graph, arrays: Sequence[Array]) -> list[Array]:
        return self.outputs(body, dict(zip(body.inputs, arrays, strict=True)))

    def _decided(self, array: Array, node: Node) -> Array:
        """What each rank decides. Raises ValueError where it is not the same on all that exchange
        values inside of a loop or a branch.
        """
        for name in _exchanging(node.op.bodies()):
            axis = self.names.index(name)
            if not (array == np.take(array, [0], axis)).all():
                raise ValueError("ranks take different ways, and exchange values inside")
        return array

    def _where(self, there: Array, ones: list[Array], others: list[Array]) -> list[Array]:
        """What some ranks have of the one, and the rest of the other."""
        mesh = len(self.sizes)
        return [
            np.where(there.reshape(*self.sizes, *[1] * (one.ndim - mesh)), one, other)
            for one, other in zip(ones, others, strict=True)
        ]

    def _scan(self, node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
        op: Any = node.op
        first, xs, rest = op.parts(inputs)
        carry, before = list(first), (slice(None),) * len(self.sizes)
        rows: dict[int, list[Array]] = {}
        for step in reversed(range(op.length)) if op.reverse else range(op.length):
            results = self._body(op.body, [*carry, *(x[(*before, step)] for x in xs), *rest])
            carry = results[: op.carries]
            rows[step] = results[op.carries :]
        stacked = [
            np.stack([rows[step][n] for step in range(op.length)], axis=len(self.sizes))
            if rows
            else np.empty((*self.sizes, *static(type.shape)), type.dtype.numpy)
            for n, type in enumerate(node.results[op.carries :])
        ]
        return (*carry, *stacked)


def _exchanges(body: Graph) -> bool:
    """Whether ranks exchange values inside a body."""
    return any(
        hasattr(node.op, "across") or any(map(_exchanges, node.op.bodies()))
        for node in body.nodes()
    )


def _exchanging(bodies: Sequence[Graph]) -> set[str]:
    """The axes of the mesh along which ranks exchange values inside of bodies."""
    found: set[str] = set()
    for body in bodies:
        for node in body.nodes():
            if hasattr(node.op, "across"):
                about = attributes(node.op)
                found |= {*about.get("axes", about.get("manual", ()))}
            found |= _exchanging(node.op.bodies())
    return found
