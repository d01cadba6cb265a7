"""The nodes of an ONNX graph that remain after folding constants and merging equal values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import NodeProto, helper

from xlac.integrations.simplify import views
from xlac.integrations.simplify.batch_norms import merged
from xlac.integrations.simplify.protos import reads, renamed
from xlac.integrations.simplify.values import ValueFacts
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac_sdk.support.unused_names import unused_name


class Rebuilt:
    """The nodes that outputs depend on, and the constants that were folded for them.

    `largest` bounds, in bytes, a folded constant that is larger than the constants it is computed
    from.
    """

    def __init__(self, graph: Any, opset: int, values: ValueFacts, largest: int) -> None:
        self.graph, self.opset, self.values, self.largest = graph, opset, values, largest
        self.constants: dict[str, Array | None] = {}  # None: the value of that name
        self.held = {t.name for t in graph.initializer}
        self.held |= {t.values.name for t in graph.sparse_initializer}
        self.inputs = [info.name for info in graph.input if info.name not in self.held]
        self.outputs = [info.name for info in graph.output]
        self.taken = {*self.held, *self.inputs}
        self.taken.update(name for node in graph.node for name in (*node.output, *reads(node)))
        self.first: dict[Node, str] = {}  # the first name of each value
        self.names: dict[str, str] = {}  # name of a value -> name of the equal value used instead
        self.shapes: dict[str, str] = {}
        self.moved: dict[str, str] = {}
        self.better: dict[str, str] = {}  # names of values -> the outputs they are renamed to
        self.nodes = self._finished(self._live(self._resolved()))

    def fresh(self, wanted: str) -> str:
        """A name that is not used yet."""
        return unused_name(wanted, self.taken)

    def name(self, name: str) -> str:
        """The name of the value that replaces a value."""
        return self.names.get(name, name)

    def _resolved(self) -> list[Any]:
        """All nodes in order, reading the replacements of their inputs."""
        for name in (*self.inputs, *sorted(self.held)):
            if name in self.values.nodes:
                self.first.setdefault(self.values.nodes[name], name)
        nodes = []
        for original in self.graph.node:
            node = NodeProto.FromString(original.SerializeToString())
            for name in filter(None, original.output):
                self._resolve(name)
            renamed(node, self.name)
            nodes.append(self._viewed(node))
        return nodes

    def _resolve(self, name: str) -> None:
        """Decides what replaces a result: a constant, or an equal earlier value."""
        node = self.values.nodes.get(name)
        if node is None:
            return
        source = self.values.source(name)
        if node in self.first:
            self.names[name] = self.first[node]
        elif source is not None and node.type.nbytes <= max(self.largest, source):
            self.first[node] = name
            self.constants[name] = None
        else:
            self.first[node] = name

    def _viewed(self, node: Any) -> Any:
        """A chain of reshapes or transpositions as a single one of its first value, with a constant
        shape.
        """
        base = views.beneath(self.values, node, self.opset)
        name = self.first.get(base) if base is not None else None
        if name is None or node.output[0] in self.constants:
            return node
        computed = any(n not in self.held and n not in self.constants for n in node.input[1:] if n)
        if name == node.input[0] and not computed:
            return node
        rewritten = views.rewritten(self.values, node, name)
        if rewritten is None:
            return node
        node_now, shape = rewritten
        if shape is not None:
            node_now.input[1] = self._shape(shape)
        return node_now

    def _shape(self, shape: Array) -> str:
        """The name of a constant shape; equal shapes share one."""
        text = "_".join("n" if size == -1 else str(size) for size in shape.tolist())
        key = f"shape_{text or 'scalar'}"
        if key not in self.shapes:
            self.shapes[key] = self.fresh(key)
            self.constants[self.shapes[key]] = shape
        return self.shapes[key]

    def array(self, name: str) -> Array | None:
        """The elements of a constant of the graph, given or folded; None for any other value."""
        if name in self.constants:
            value = self.constants[name]
            return self.values.array(name) if value is None else value
        return self.values.array(name) if name in self.held and name in self.values.nodes else None

    def _live(self, nodes: list[Any]) -> list[Any]:
        """The nodes that outputs depend on; results that were replaced are renamed."""
        needed = {self.name(name) for name in self.outputs}
        live = []
        for node in reversed(nodes):
            produced = [name for name in node.output if name and self._is_made(name)]
            if needed.isdisjoint(produced):
                continue
            needed.update(reads(node))
            for number, name in enumerate(node.output):
                if name and not self._is_made(name):
                    node.output[number] = self.fresh(f"{name}.unused")
            live.append(node)
        return live[::-1]

    def _is_made(self, name: str) -> bool:
        """Whether a name still denotes a result of a node."""
        return self.name(name) == name and name not in self.constants

    def _finished(self, nodes: list[Any]) -> list[Any]:
        """The nodes with batch normalizations folded, and every output under its own name."""
        held = {self.name(name) for name in self.outputs}
        nodes, arrays = merged(nodes, self.opset, held, self.array, self.fresh)
        self.constants |= arrays
        makers = {name for node in nodes for name in node.output}
        better: dict[str, str] = {}
        behind = []
        for name in self.outputs:
            given = self.name(name)
            if given == name and name not in self.constants:
                continue
            if given in makers and given not in self.outputs and given not in better:
                better[given] = name
                continue
            if given in self.outputs and given in self.constants:
                given = self._moved(given)
            behind.append(helper.make_node("Identity", [given], [name], name=name))
        for node in nodes:
            renamed(node, lambda name: better.get(name, name))
            for number, name in enumerate(node.output):
                node.output[number] = better.get(name, name)
        self.better = better
        return [*nodes, *_reading(behind, better)]

    def _moved(self, name: str) -> str:
        """A copy, under a new name, of a constant that has the name of an output."""
        if name not in self.moved:
            self.moved[name] = self.fresh(f"{name}.value")
            self.constants[self.moved[name]] = self.array(name)
        return self.moved[name]

    def live(self) -> Iterator[str]:
        """The names of constants, given and folded, that the nodes and outputs read; each once."""
        needed = dict.fromkeys(name for node in self.nodes for name in reads(node))
        needed |= dict.fromkeys(name for name in self.outputs if name in self.held)
        yield from (name for name in needed if name in self.constants or name in self.held)


def _reading(nodes: list[Any], better: dict[str, str]) -> list[Any]:
    for node in nodes:
        renamed(node, lambda name: better.get(name, name))
    return nodes
