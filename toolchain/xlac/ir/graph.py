"""Nodes, graphs, and how to build and rebuild them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from xlac.ir.dims import Shape, bounds
from xlac.ir.op import OPS, Op, ShapeError, attributes
from xlac.ir.types import Type, Types
from xlac_sdk.source import Origin
from xlac_sdk.support.limits import count_operation


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """An operation applied to inputs. Compared by identity.

    A node has one result, of `type`; one with several has a tuple of types, and `pick` nodes select
    them. `origin` is where the model asked for it.
    """

    op: Op
    inputs: tuple[Node, ...]
    types: Types
    origin: Origin | None = None

    def __repr__(self) -> str:
        """One line without what it reads: values that are read twice would be shown twice, and all
        before them four times.
        """
        inputs = ", ".join(f"{i.op.mnemonic} {i.types}" for i in self.inputs)
        name = f" {self.origin.name!r}" if self.origin else ""
        return f"<Node{name}: {self.op.mnemonic}({inputs}) {self.types}>"

    @staticmethod
    def of(op: Op, *inputs: Node, origin: Origin | None = None) -> Node:
        """Applies an operation, inferring types. Raises ShapeError."""
        count_operation()
        types = op.infer(*(i.type for i in inputs))
        for result in (types,) if isinstance(types, Type) else types:
            if any(
                (size if isinstance(size, int) else bounds(size)[1]) < 0 for size in result.shape
            ):
                what = getattr(op, "name", op.mnemonic)  # for weights and inputs: the user's name
                raise ShapeError(f"{what} would have a negative size: {result}")
        return Node(op, inputs, types, origin)

    @property
    def type(self) -> Type:
        """The type of the result of a node that has one."""
        assert isinstance(self.types, Type), f"{self.op.mnemonic} has several results"
        return self.types

    @property
    def shape(self) -> Shape:
        """The shape of the result of a node that has one."""
        return (self.types if isinstance(self.types, Type) else self.type).shape

    @property
    def results(self) -> tuple[Type, ...]:
        """The type of every result."""
        return (self.types,) if isinstance(self.types, Type) else self.types

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The same operation on other inputs of the same types."""
        return Node(self.op, inputs, self.types, self.origin)

    @property
    def name(self) -> str:
        """The path in the model, or nothing for a node that no user wrote."""
        return self.origin.name if self.origin else ""


def apply(mnemonic: str, *inputs: Node, **attributes: Any) -> Node:
    """Applies an operation by its mnemonic; for modules of operations that cannot import one
    another. Raises ShapeError.
    """
    make: Any = OPS[mnemonic]
    return Node.of(make(**attributes), *inputs)


def pick(node: Node, number: int) -> Node:
    """A result of a node that may have several."""
    if isinstance(node.types, Type):
        return node
    op: Any = OPS["pick"]
    return Node(op(number), (node,), node.types[number], node.origin)


def zeros(type: Type) -> Node:
    """A tensor of zeros."""
    zero = apply("const", value=np.zeros((), type.dtype.numpy))
    return apply("broadcast", zero, shape=type.shape, axes=()) if type.shape else zero


@dataclass(frozen=True, eq=False)
class Graph:
    """A model, or the body of a loop or branch (then closed: its nodes use only its inputs).

    `inputs` are the `param` nodes that the caller supplies, in order; weights are `param` nodes of
    kind "weight", and are found by walking.
    """

    name: str
    inputs: tuple[Node, ...]
    outputs: Mapping[str, Node] = field(default_factory=dict)

    @cached_property
    def order(self) -> tuple[Node, ...]:
        """Every node that an output needs, inputs of a node before the node, in a stable order."""
        return tuple(walk(self.outputs.values()))

    @cached_property
    def nested(self) -> bool:
        """Whether an operation holds graphs."""
        return any(node.op.bodies() for node in self.order)

    def nodes(self) -> Iterator[Node]:
        """`order`, one by one."""
        return iter(self.order)

    def rewrite(self, visit: Callable[[Node], Node]) -> Graph:
        """A graph with `visit` applied bottom-up to every node; untouched nodes are kept as they
        are.

        `visit` gets a node whose inputs are already rewritten. Bodies are not entered: see
        `map_bodies`.
        """
        new: dict[Node, Node] = {}
        for node in self.nodes():
            count_operation()
            inputs = tuple(new[i] for i in node.inputs)
            new[node] = visit(node if inputs == node.inputs else node.with_inputs(inputs))
        outputs = {name: new[node] for name, node in self.outputs.items()}
        inputs = tuple(new.get(i, i) for i in self.inputs)
        if outputs == self.outputs and inputs == self.inputs:
            return self
        return Graph(self.name, inputs, outputs)

    def users(self) -> dict[Node, list[Node]]:
        """Who reads each node; outputs of the graph are not users."""
        users: dict[Node, list[Node]] = {}
        for node in self.nodes():
            users.setdefault(node, [])
            for i in dict.fromkeys(node.inputs):
                users.setdefault(i, []).append(node)
        return users


def walk(roots: Iterable[Node], given: Collection[Node] = ()) -> Iterator[Node]:
    """The nodes that `roots` need, inputs first, up to nodes that are given; without recursion."""
    seen = set(given)
    stack = [(node, False) for node in reversed(list(roots))]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(i, False) for i in reversed(node.inputs) if i not in seen]


def map_bodies(node: Node, visit: Callable[[Graph], Graph]) -> Node:
    """The node with every graph inside its operation replaced."""
    changed: dict[str, object] = {}
    for name, value in attributes(node.op).items():
        if isinstance(value, Graph):
            new: object = visit(value)
        elif isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
            new = tuple(visit(v) if isinstance(v, Graph) else v for v in value)
            new = (
                value
                if all(a is b for a, b in zip(cast("tuple[object, ...]", new), value, strict=True))
                else new
            )
        else:
            continue
        if new is not value:
            changed[name] = new
    return replace(node, op=replace(node.op, **changed)) if changed else node
