"""Carried values of loops: names, each of one tensor or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.spec.elaborate import type_text
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import Number, as_node, expression
from xlac.spec.elaborate.node_keys import whole
from xlac.spec.elaborate.operations import same
from xlac.spec.elaborate.scope import Copies, Scope, Value
from xlac.spec.report import Attempts, Fault, Place, nearest
from xlac.spec.schema import schema
from xlac_sdk.source import Origin
from xlac_sdk.support.counts import number_of

MAX_COPIES = 10_000


class Carried:
    """The carried values of one loop."""

    def __init__(
        self, context: Elaboration, scope: Scope, spec: Any, path: str, place: Place
    ) -> None:
        self.inits: dict[str, list[Node]] = {}
        self.copied: set[str] = set()
        attempts = Attempts(context.report)
        for name, carry in spec.carry.items():
            with attempts.part():
                self.inits[name] = self._init(
                    context, scope, name, carry, f"{path}.{name}", place.at("carry", name)
                )
        attempts.finish()
        context.add(len(self.flat()), place.key)  # each is an input of the body

    def _init(
        self, context: Elaboration, scope: Scope, name: str, carry: Any, path: str, place: Place
    ) -> list[Node]:
        wanted: Type | None = None
        text, at, copies = carry, place, None
        if isinstance(carry, schema.Carry):
            text, at = carry.init, place.at("init")
            if carry.type is not None:
                wanted = type_text.type_value(carry.type, scope.constants, place.at("type"))
            if carry.copies is not None:
                copies = whole(scope, carry.copies, place.at("copies"), 1, MAX_COPIES)
                self.copied.add(name)
        if isinstance(text, dict):
            raise Fault("XL1012", "init is a value, or a list with one for each copy", at.span)
        items = text if isinstance(text, list) else [text]
        if isinstance(text, list) and len(text) != (copies or 1):
            raise Fault("XL2009", f"{len(text)} initial values for {copies or 1} copies", at.span)
        nodes: list[Node] = []
        for i, item in enumerate(items):
            spot = at.at(i) if isinstance(text, list) else at
            value = expression(context, scope, item, path, spot)
            if isinstance(value, Copies) and copies == len(value.items):
                nodes += [as_node(context, one, item, path, spot) for one in value.items]
                continue
            node = as_node(context, value, item, path, spot, wanted)
            if wanted is not None and not same(node.type, wanted):
                raise Fault(
                    "XL2013",
                    f"{name!r} is declared {wanted}, and its initial value is {node.type}",
                    spot.span,
                )
            nodes.append(node)
        return nodes * copies if copies and len(nodes) == 1 else nodes

    def flat(self) -> list[Node]:
        """The initial values as a flat list of nodes."""
        return [node for nodes in self.inits.values() for node in nodes]

    def values(self, nodes: Sequence[Node]) -> dict[str, Value]:
        """Names for tensors given in the order of `flat`."""
        values: dict[str, Value] = {}
        at = 0
        for name, inits in self.inits.items():
            mine = tuple(nodes[at : at + len(inits)])
            at += len(inits)
            values[name] = Copies(mine) if name in self.copied else mine[0]
        return values

    def params(self, path: str, place: Place) -> list[Node]:
        """Inputs of a body for the carried values."""
        return [
            body_input(
                f"{name}.{i}" if name in self.copied else name,
                node.type,
                path,
                place.at("carry", name),
            )
            for name, nodes in self.inits.items()
            for i, node in enumerate(nodes)
        ]

    def next(
        self, context: Elaboration, inner: Scope, spec: Any, path: str, place: Place
    ) -> list[Node]:
        """The carried values after an iteration, in the order of `flat`. Raises Fault or
        Poisoned.
        """
        for name in spec.next:
            if name not in self.inits:
                context.report.add(
                    "XL2002",
                    f"{name!r} is not carried",
                    place.at("next", name).key,
                    nearest(name, self.inits),
                )
        nodes: list[Node] = []
        attempts = Attempts(context.report)
        for name, inits in self.inits.items():
            if name not in spec.next:
                context.report.add(
                    "XL1011", f"next does not say what {name!r} becomes", place.at("next").key
                )
                attempts.failed = True
                continue
            text, at = spec.next[name], place.at("next", name)
            with attempts.part():
                nodes += self._after(context, inner, name, inits, text, f"{path}.{name}", at)
        attempts.finish()
        return nodes

    def _after(
        self,
        context: Elaboration,
        inner: Scope,
        name: str,
        inits: list[Node],
        text: Any,
        path: str,
        at: Place,
    ) -> list[Node]:
        value = expression(context, inner, text, path, at)
        if isinstance(value, Copies) and name in self.copied:
            items: Sequence[Value | Number] = value.items
        else:
            items = [value]
        if len(items) != len(inits):
            raise Fault(
                "XL2009",
                f"{name!r} is carried in {number_of(len(inits), 'copy', 'copies')}, "
                f"and this is {len(items)}",
                at.span,
            )
        nodes = [
            as_node(context, item, text, path, at, init.type)
            for item, init in zip(items, inits, strict=True)
        ]
        for node, init in zip(nodes, inits, strict=True):
            if not same(node.type, init.type):
                raise Fault(
                    "XL2009",
                    f"{name!r} is carried as {init.type}, and becomes {node.type}",
                    at.span,
                    "a carried value keeps its type: cast or reshape it, or declare the type of "
                    "init",
                )
        return nodes


def body_input(name: str, type: Type, path: str, place: Place) -> Node:
    """An input of a body."""
    from xlac.ops.tensor.leaf import Param

    return Node.of(Param(name=name, type=type), origin=Origin(f"{path}.{name}", place.key))
