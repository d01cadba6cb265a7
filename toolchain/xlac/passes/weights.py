"""Weights of a model, and those that passes derive from them (transposed, scaled, packed)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Lock
from weakref import WeakValueDictionary

from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import Array, frozen_array
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.view import Reshape, Transpose
from xlac_sdk.support.mapping import forget


class Weights(Mapping[str, Array]):
    """Arrays by the name of their `param` node. A derived weight is computed when it is read.

    Nothing is read or computed before: the arrays of the model may be memory-mapped files of
    gigabytes. Derived weights are held by weak references: most are packed once and never read
    again.
    """

    def __init__(self, given: Mapping[str, Array] | None = None) -> None:
        self._given: Mapping[str, Array] = given if given is not None else {}
        self._derived: dict[str, Node] = {}
        self._arrays: WeakValueDictionary[str, Array] = WeakValueDictionary()
        self._lock = Lock()

    @staticmethod
    def over(given: Mapping[str, Array]) -> Weights:
        """A `Weights` over a mapping; the mapping itself where it is one, so that derived weights
        are added to it.
        """
        return given if isinstance(given, Weights) else Weights(given)

    def derive(self, expression: Node) -> Node:
        """A weight whose value is an expression over weights and constants."""
        sources = [n.op.name for n in walk([expression]) if isinstance(n.op, Param)]
        stem = sources[0].partition("~")[0] if sources else "constant"
        count = 1
        while (name := f"{stem}~{count}") in self:
            count += 1
        self._derived[name] = expression
        return Node.of(Param(name, expression.type, "weight"), origin=expression.origin)

    def __getitem__(self, name: str) -> Array:
        if name not in self._derived:
            return self._given[name]
        with self._lock:
            array = self._arrays.get(name)
            if array is None:
                array = self._arrays[name] = self._compute(name)
            return array

    def __contains__(self, name: object) -> bool:
        return name in self._derived or name in self._given

    def __iter__(self) -> Iterator[str]:
        yield from self._given
        yield from self._derived

    def __len__(self) -> int:
        return len(self._given) + len(self._derived)

    def _compute(self, name: str) -> Array:
        """Computes a derived weight in float64, rounded once; half precision rounds as the model
        does.
        """
        from xlac.ir.interpret import interpret

        expression = self._whole(self._derived[name])
        nodes = list(walk([expression]))
        moved = all(isinstance(n.op, Param | Reshape | Transpose) for n in nodes)
        wide = not moved and not any(t.dtype.is_half for n in nodes for t in n.results)
        arrays = {n.op.name: self._given[n.op.name] for n in nodes if isinstance(n.op, Param)}
        result = interpret(Graph(name, (), {"": expression}), {}, arrays, float64=wide)[""]
        if moved:  # only views: the elements are not copied
            result = result.view()
            result.flags.writeable = False
            return result
        for array in arrays.values():
            forget(array)
        return frozen_array(result, expression.type.dtype.numpy)

    def _whole(self, expression: Node) -> Node:
        """The expression with derived weights replaced by their definitions."""
        new: dict[Node, Node] = {}
        pending = [expression]
        while pending:
            node = pending[-1]
            inside = self._derived.get(node.op.name) if isinstance(node.op, Param) else None
            needs = (inside,) if inside is not None else node.inputs
            waiting = [i for i in needs if i not in new]
            if waiting:
                pending += waiting
                continue
            pending.pop()
            if inside is not None:
                new[node] = new[inside]
            elif node.inputs:
                new[node] = Node(
                    node.op, tuple(new[i] for i in node.inputs), node.types, node.origin
                )
            else:
                new[node] = node
        return new[expression]
