"""Moves weights and constants that are operands of a body into the body: the last step before
scheduling.

A schedule may then pack a weight at compile time, inside a loop as well as outside. The resulting
graph is for lowering only: its bodies read weights that are not their operands, which the
interpreter does not support.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xlac.ir.graph import Graph, Node, map_bodies
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Reshape


def captured(graph: Graph) -> Graph:
    """The graph with every constant operand of a control operation moved into its bodies."""
    return graph.rewrite(
        lambda node: map_bodies(_inlined(node), captured) if node.op.bodies() else node
    )


def is_constant(node: Node) -> bool:
    """Whether a node is a weight, or an array known at compile time."""
    return isinstance(node.op, Const) or (isinstance(node.op, Param) and node.op.kind == "weight")


def reshaped(node: Node) -> Node:
    """The value beneath any number of reshapes."""
    while isinstance(node.op, Reshape):
        (node,) = node.inputs
    return node


def is_captured(node: Node) -> bool:
    """Whether an operand is captured by bodies: a constant, perhaps reshaped."""
    return is_constant(reshaped(node))


def _inlined(node: Node) -> Node:
    match node.op:
        case Scan() as scan:
            first = scan.carries + scan.scanned
            known, kept = _split(node, first)
            inside = {i + first: value for i, value in known.items()}
            return (
                replace(node, op=replace(scan, body=_bound(scan.body, inside)), inputs=kept)
                if known
                else node
            )
        case Call() as call:
            known, kept = _split(node, 0)
            return (
                replace(node, op=replace(call, body=_bound(call.body, known)), inputs=kept)
                if known
                else node
            )
        case Cond() as cond:
            known, kept = _split(node, 1)
            branches = tuple(_bound(b, known) for b in cond.branches)
            return (
                replace(node, op=replace(cond, branches=branches), inputs=kept) if known else node
            )
        case While(body=Graph() as body):
            nexts = list(body.outputs.values())
            known = {
                i: value
                for i, (value, before) in enumerate(zip(node.inputs, body.inputs, strict=True))
                if is_captured(value) and nexts[i] is before
            }
            if known:  # the carried value remains, but is no longer read
                op = replace(node.op, cond=_read(node.op.cond, known), body=_read(body, known))
                return replace(node, op=op)
    return node


def _split(node: Node, first: int) -> tuple[dict[int, Node], tuple[Node, ...]]:
    """The constant operands from `first` on, numbered from there, and the operands that remain."""
    known = {i - first: v for i, v in enumerate(node.inputs) if i >= first and is_captured(v)}
    return known, tuple(v for i, v in enumerate(node.inputs) if i - first not in known)


def _bound(body: Graph | None, known: Mapping[int, Node]) -> Graph:
    """A body without the inputs in `known`, whose values it captures."""
    assert body is not None
    inner = _read(body, known)
    return Graph(
        inner.name, tuple(p for i, p in enumerate(inner.inputs) if i not in known), inner.outputs
    )


def _read(body: Graph | None, known: Mapping[int, Node]) -> Graph:
    """A body that captures known values in place of some of its inputs, which it keeps."""
    assert body is not None
    values = {body.inputs[i]: value for i, value in known.items()}
    outputs = body.rewrite(lambda node: values.get(node, node)).outputs
    return Graph(body.name, body.inputs, outputs)
