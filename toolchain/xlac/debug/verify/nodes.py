"""Judges every group of a program by itself: its outputs are compared with exact results for the
values that it read, so that errors of earlier groups do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from xlac.debug.errors.approximation import Approximation
from xlac.debug.errors.propagate import of_node
from xlac.debug.errors.sums import Promise
from xlac.debug.verify.deviation import Discrepancy, deviation
from xlac.driver import Lowered
from xlac.fusion.group import Group, Kind
from xlac.fusion.partition import is_alias
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, attributes
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.source import Origin

Values = dict[Node, Array]


@dataclass(frozen=True, slots=True, eq=False)
class JudgedNode:
    """An output of group `number`, with its discrepancy (`own`) from the exact results for the
    inputs that the group read.
    """

    number: int
    group: Group
    node: Node
    own: Discrepancy

    @property
    def name(self) -> str:
        """The node's name in the model, and its operation."""
        origin = self.node.origin
        return f"{origin.name} ({self.node.op.mnemonic})" if origin else self.node.op.mnemonic

    @property
    def places(self) -> tuple[Origin, ...]:
        """The places in the model that the group computes."""
        return tuple(dict.fromkeys(n.origin for n in self.group.nodes if n.origin))


class GroupJudge:
    """Judges groups in the order in which they run. `left` are the arrays recorded by taps."""

    def __init__(
        self,
        lowered: Lowered,
        inputs: Mapping[str, Array],
        left: Mapping[Node, Array],
        promise: Promise,
    ) -> None:
        self.lowered, self.left, self.promise = lowered, left, promise
        self.inputs, self.weights = inputs, lowered.model.weights
        self.values: Values = {}

    def value(self, node: Node) -> Array:
        """The value of a node in the program's run: tapped, an input, or a view of one."""
        if node not in self.values:
            self.values[node] = self._value(node)
        return self.values[node]

    def _value(self, node: Node) -> Array:
        if node in self.left:
            return np.asarray(self.left[node])
        if isinstance(node.op, Param):
            source = self.weights if node.op.kind == "weight" else self.inputs
            return np.asarray(source[node.op.name])
        (value, *_) = evaluate(node, [(self.value(i),) for i in node.inputs])
        return np.asarray(value)

    def approximations(self, group: Group) -> dict[Node, tuple[Approximation, ...]]:
        """The exact results of a group's nodes for the values that it read, with error bounds."""
        approximate: dict[Node, tuple[Approximation, ...]] = {}
        for node in dict.fromkeys((*group.inputs, *(i for n in group.nodes for i in n.inputs))):
            if node not in group.members:
                approximate[node] = (Approximation(_wide(self.value(node))),)
        for node in group.nodes:
            inner = handed(node, self.weights) if group.kind is Kind.CONTROL else node
            approximate[node] = of_node(inner, [approximate[i] for i in node.inputs], self.promise)
        return approximate

    def group(self, number: int, group: Group) -> Iterator[JudgedNode]:
        """Judges every tapped output of a group."""
        tapped = [node for node in group.outputs if node in self.left]
        if not tapped or is_alias(group):
            return
        meant = self.approximations(group)
        for node in tapped:
            own = deviation(np.asarray(self.left[node]), meant[node][0], node.type.dtype)
            yield JudgedNode(number, group, node, own)

    def all(self) -> Iterator[JudgedNode]:
        """Judges every output of every group."""
        for number, group in enumerate(self.lowered.partition.groups):
            yield from self.group(number, group)


def _wide(array: Array) -> Array:
    floats = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    with np.errstate(all="ignore"):
        return array.astype(np.float64, copy=False) if floats else array


# ---- weights that bodies read without having them as operands
# -------------------------------------


def handed(node: Node, weights: Mapping[str, Array]) -> Node:
    """A control operation with the weights that its bodies read replaced by constants."""
    if not node.op.bodies():
        return node
    changed = {body: body.rewrite(partial(_literal, body, weights)) for body in node.op.bodies()}
    fields = {}
    for name, value in attributes(node.op).items():
        if isinstance(value, Graph):
            fields[name] = changed[value]
        elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
            fields[name] = tuple(changed[v] for v in value)
    return replace(node, op=replace(node.op, **fields))


def _literal(body: Graph, weights: Mapping[str, Array], node: Node) -> Node:
    if isinstance(node.op, Param) and node.op.kind == "weight" and node not in body.inputs:
        return Node.of(Const(np.asarray(weights[node.op.name])))
    if node.op.bodies():
        return handed(node, weights)
    return node
