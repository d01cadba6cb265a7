"""Summarizes a model: a row of numbers for each node, and totals."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from xlac.ir.dims import UNBOUNDED, size_hint
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.cost import Cost, cost, nbytes
from xlac.ops.tensor.leaf import Const, Param


def summarize(model: Model) -> dict[str, Any]:
    """A row for each of the user's nodes, and totals, at the sizes to optimise for."""
    rows, total = node_rows(model.graph)
    weights = [n for n in model.graph.nodes() if isinstance(n.op, Param) and n.op.kind == "weight"]
    measured = statistics(model.graph)
    add_weights(rows, weights, measured)
    learned = [weight for weight in weights if weight not in measured]
    return {
        "model": model.name,
        "dims": {
            name: f"{s.min} to {s.max if s.max < UNBOUNDED else 'any'}, optimised for {s.opt}"
            + (f", multiples of {s.multiple_of}" if s.multiple_of > 1 else "")
            for name, s in model.dims.items()
        },
        "inputs": {n.name: str(n.type) for n in model.graph.inputs},
        "outputs": {name: str(n.type) for name, n in model.graph.outputs.items()},
        "nodes": list(rows.values()),
        "totals": {
            "parameters": sum(size_hint(n.type.size) for n in learned),
            "statistics": sum(size_hint(n.type.size) for n in measured),
            "tensors": len(weights),
            "parameter_bytes": sum(n.type.nbytes for n in weights),
            "flops": total.flops,
            "bytes": total.read + total.written,
            "peak_bytes": peak(model.graph),
        },
    }


def node_rows(graph: Graph) -> tuple[dict[tuple[str, int], dict[str, Any]], Cost]:
    """A row for each name and depth of nesting, and what all nodes cost together."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    total = Cost()
    for depth, times, inner in graphs(graph, 0, 1):
        for node in inner.nodes():
            if isinstance(node.op, Param):
                continue
            row = rows.setdefault((node.name, depth), _row(node.name))
            if not isinstance(node.op, Const) and node.op.mnemonic != "pick":
                row["op"] = node.op.mnemonic  # the last node of an expression
                row["shape"] = ", ".join(map(str, node.results))
            elif not row["op"]:
                row["op"], row["shape"] = node.op.mnemonic, ", ".join(map(str, node.results))
            if not node.op.bodies():
                one = cost(node) * times
                row["flops"] += one.flops
                row["bytes"] += one.read + one.written
                total = total + one
    return rows, total


def add_weights(
    rows: dict[tuple[str, int], dict[str, Any]], weights: Sequence[Node], measured: Collection[Node]
) -> None:
    """Adds the elements of each weight to the row of its node, or to a new row. Those that are
    `measured` do not count as parameters.
    """
    by_name = {key[0]: key for key in rows}
    for weight in weights:
        key = by_name.get(weight.name.rpartition(".")[0], (weight.name, 0))
        row = rows.setdefault(key, _row(weight.name, "weight", str(weight.type)))
        if weight not in measured:
            row["parameters"] += size_hint(weight.type.size)


def _row(name: str, op: str = "", shape: str = "") -> dict[str, Any]:
    return {"node": name, "op": op, "shape": shape, "parameters": 0, "flops": 0, "bytes": 0}


def statistics(graph: Graph) -> set[Node]:
    """Tensors that training measures instead of learning, such as the mean of a batch_norm; they
    are not parameters.
    """
    tensors: set[Node] = set()
    for node in graph.nodes():
        measured = getattr(type(node.op), "statistics", ())
        tensors |= {
            i
            for i in node.inputs
            if measured and i.name.rpartition(".")[2] in measured and isinstance(i.op, Param)
        }
        # a cond's first input is the branch number, not an operand of its branches
        for body in node.op.bodies():
            args = node.inputs[max(0, len(node.inputs) - len(body.inputs)) :]
            outer = dict(zip(body.inputs, args, strict=False))
            inside = (outer.get(i) for i in statistics(body))
            tensors |= {i for i in inside if i is not None and isinstance(i.op, Param)}
    return tensors


def graphs(graph: Graph, depth: int, times: int) -> list[tuple[int, int, Graph]]:
    """A graph and its nested graphs, with depth, and how often each runs where that is known."""
    nested = [(depth, times, graph)]
    for node in graph.nodes():
        steps = size_hint(getattr(node.op, "length", 1)) if node.op.mnemonic == "scan" else 1
        for body in node.op.bodies():
            nested += graphs(body, depth + 1, times * steps)
    return nested


def peak(graph: Graph) -> int:
    """The most bytes of values alive at one time when nodes run in order without fusion; without
    weights.
    """
    order = [n for n in graph.nodes() if not (isinstance(n.op, Param) and n.op.kind == "weight")]
    last: dict[Node, int] = {}
    for at, node in enumerate(order):
        for i in node.inputs:
            last[i] = at
            if i.op.mnemonic == "pick":
                last[i.inputs[0]] = at
    for node in graph.outputs.values():
        last[node] = len(order)
    ends: dict[int, list[Node]] = {}
    for node, at in last.items():
        ends.setdefault(at, []).append(node)
    alive = most = 0
    held: set[Node] = set()
    for at, node in enumerate(order):
        inner = max((peak(b) for b in node.op.bodies()), default=0)
        if node in last:
            held.add(node)
            alive += _bytes(node)
        most = max(most, alive + inner)
        for dead in ends.get(at, ()):
            if dead in held:
                held.discard(dead)
                alive -= _bytes(dead)
    return most


def _bytes(node: Node) -> int:
    if node.op.mnemonic == "pick" or (isinstance(node.types, Type) and isinstance(node.op, Const)):
        return 0
    return sum(map(nbytes, node.results))
