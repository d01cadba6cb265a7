"""Bodies of traced loops and branches: Python functions traced on parameters of their own. Outer
values that they read become operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xlac.frontends.pytree import PyTree, flatten, paths, unflatten
from xlac.frontends.traced_function import Input, Leaf, inlined, is_tracing
from xlac.frontends.tracing import Number, Tensor
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import Param
from xlac.ops.walks import closed, dependents
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


def wrong(message: str, hint: str = "") -> SourceError:
    """The error for an invalid loop or branch."""
    return SourceError(Diagnostic("XL2035", message, hint=hint))


def inside(name: str) -> None:
    """Raises TypeError when called outside of a traced function."""
    if not is_tracing():
        raise TypeError(
            f"xlac.{name} works on traced tensors: call it inside a function made by xlac.jit"
        )


@dataclass(frozen=True)
class TracedBody:
    """A function traced on parameters."""

    params: list[Node]
    tree: PyTree
    results: list[Tensor]

    def nodes(self, types: Sequence[DType | None] | None = None) -> list[Node]:
        """Its results as nodes; numbers in the given element types, or in their own."""
        wanted = types or [None] * len(self.results)
        return [
            r.weak.node(t) if isinstance(r, Number) else r.node
            for r, t in zip(self.results, wanted, strict=True)
        ]


def traced(call: Callable[[list[Tensor]], Any], leaves: Sequence[Leaf]) -> TracedBody:
    """Traces a function of tensors on parameters: one for each leaf; for a number, one for each
    type that it is used in.
    """
    inputs = [Input("body", f"b{number}", leaf) for number, leaf in enumerate(leaves)]
    results: list[Tensor] = []
    tree = flatten(inlined(call([one.tensor for one in inputs])), results)
    return TracedBody([node for one in inputs for _, node in one.params()], tree, results)


def captured(params: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
    """The values that the results read and that neither depend on the parameters nor are
    constant.
    """
    own = dependents(roots, params)
    read = [i for node in own for i in node.inputs if i not in own]
    read += [root for root in roots if root not in own]
    varies: dict[Node, bool] = {}
    for node in walk(read, own):
        varies[node] = isinstance(node.op, Param) or any(varies[i] for i in node.inputs)
    return list(dict.fromkeys(node for node in read if varies[node]))


def around(*bodies: tuple[Sequence[Node], Sequence[Node]]) -> list[Node]:
    """The outer values that several bodies read, each body given by its parameters and results."""
    captured_nodes: dict[Node, None] = {}
    for params, roots in bodies:
        captured_nodes |= dict.fromkeys(captured(params, roots))
    return list(captured_nodes)


def graph(name: str, body: TracedBody, others: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    """A closed graph with the body's parameters and captured values as inputs."""
    return closed(name, [*body.params, *others], outputs)


# ---- carried values -----------------------------------------------------------------------------


class CarriedNest:
    """The values that a loop carries from step to step: a pytree whose leaves keep their types.

    A Python number takes the element type that the first step gives it.
    """

    def __init__(self, function: str, init: Any) -> None:
        self._function = function
        self.leaves: list[Tensor] = []
        self.tree = flatten(inlined(init), self.leaves)

    def settle(
        self, step: Callable[[list[Tensor]], Any], rest: Sequence[Leaf], pair: bool = False
    ) -> TracedBody:
        """Traces the step on the carried values' types and on `rest`, until the types of numbers
        are settled. The step returns the new carried values or, with `pair`, a pair of these and
        something else.
        """
        if any(isinstance(leaf, Number) for leaf in self.leaves):
            first = traced(step, [*map(_leaf, self.leaves), *rest])
            self._check(first, pair)
            for number, (leaf, new) in enumerate(zip(self.leaves, first.results, strict=False)):
                if isinstance(leaf, Number):
                    dtype = None if isinstance(new, Number) else new.dtype
                    self.leaves[number] = Tensor(leaf.weak.node(dtype))
        body = traced(step, [*self.types(), *rest])
        self._check(body, pair)
        for (path, number), type in zip(paths(self.tree, "carry"), self.types(), strict=True):
            new = body.results[number]
            gives = Type(type.dtype) if isinstance(new, Number) else new.node.type
            if gives != type:
                message = f"{self._function}(): {path} is {type}, and a step makes it {gives}"
                raise wrong(message, "a carried value keeps its type: cast what the step gives")
        return body

    def _check(self, body: TracedBody, pair: bool) -> None:
        if (body.tree[1][0] if pair else body.tree) != self.tree:
            message = f"{self._function}(): a step gives another nest than the one that it carries"
            raise wrong(message, "tuples, lists, dicts and their keys stay what they are")

    def types(self) -> list[Type]:
        """The types of its leaves."""
        return [leaf.node.type for leaf in self.leaves]

    def of(self, tensors: Sequence[Any]) -> Any:
        """The pytree with other leaves."""
        return unflatten(self.tree, tensors)


def _leaf(tensor: Tensor) -> Leaf:
    return tensor.weak.kind if isinstance(tensor, Number) else tensor.node.type
