"""Tensors that a function is differentiated by: parameters of its own in the place of what it is
given, and back.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from xlac.frontends.traced_function import Input
from xlac.frontends.tracing import Number, Tensor
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.walks import dependents, fresh, substituted
from xlac_sdk.dtypes import DType


class Variables:
    """The leaves of a call that a function is differentiated by, as parameters of their own: what
    the function knows otherwise of the same tensors stays fixed.

    Integers and bools are passed as they are. A number of Python's is a parameter for each type
    that it is needed in.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.given = given
        self._inputs = [_input(tensor, number) for number, tensor in enumerate(given)]
        self._known: dict[Node, Node] = {}

    @property
    def tensors(self) -> list[Tensor]:
        """What the function is given."""
        return [
            tensor if one is None else one.tensor
            for tensor, one in zip(self.given, self._inputs, strict=True)
        ]

    def params(self) -> dict[Node, tuple[int, DType | None]]:
        """The parameters that were needed: the leaf of each, and the type that a number has
        there.
        """
        return {
            node: (number, dtype)
            for number, one in enumerate(self._inputs)
            if one is not None
            for dtype, node in one.params()
        }

    def cut(self, results: Sequence[Node]) -> list[Node]:
        """Results of the function over parameters alone, others of which stand for what it reads of
        outside: however much that was computed from, it is not gone through again.
        """
        own = dependents(results, self.params())
        read = {i: None for node in own for i in node.inputs if i not in own and i.inputs}
        read |= {node: None for node in results if node not in own and node.inputs}
        stand = dict(zip(read, fresh([node.type for node in read], "k"), strict=True))
        self._known |= {param: node for node, param in stand.items()}
        return substituted(results, stand)

    def values(self) -> dict[Node, Node]:
        """What stands for each parameter outside of the function."""
        return self._known | {
            node: in_type(self.given[number], dtype)
            for node, (number, dtype) in self.params().items()
        }

    def gathered(self, parts: Mapping[Node, Node]) -> list[Tensor | None]:
        """What belongs to each leaf, of what belongs to its parameters; None for integers."""
        found: list[Tensor | None] = [None] * len(self.given)
        sums: dict[int, Node] = {}
        for node, (number, dtype) in self.params().items():
            part = parts[node]
            if dtype is None:
                found[number] = Tensor(part)
            else:
                part = build.cast(part, DType.F64)
                sums[number] = build.add(sums[number], part) if number in sums else part
        for number, total in sums.items():
            found[number] = weak(total)
        return found


def _input(given: Tensor, number: int) -> Input | None:
    if isinstance(given, Number):
        return Input("d", f"d{number}", float) if given.weak.kind is float else None
    return Input("d", f"d{number}", given.node.type) if given.dtype.is_float else None


def weak(node: Node) -> Number:
    """A node of f64 as a number that takes the type of what it meets."""
    return Number(build.Weak(float, functools.partial(build.cast, node)))


def in_type(tensor: Tensor, dtype: DType | None) -> Node:
    """A tensor as a node; a number in the type that it is needed in."""
    return tensor.weak.node(dtype) if isinstance(tensor, Number) else tensor.node


def is_float(tensor: Tensor) -> bool:
    """Whether a tensor or number can change by little."""
    return tensor.weak.kind is float if isinstance(tensor, Number) else tensor.dtype.is_float


def exact(tensor: Tensor) -> Node:
    """A float as a node, a number of Python's with all its digits."""
    return in_type(tensor, DType.F64)


def alike(node: Node, tensor: Tensor) -> Tensor:
    """A node of the type that `exact` gives, weak where the tensor is."""
    return weak(node) if isinstance(tensor, Number) else Tensor(node)


def outside(tensors: Sequence[Tensor], values: Mapping[Node, Node]) -> list[Tensor]:
    """Tensors with their parameters replaced by what stands for them outside."""
    nodes = iter(substituted([t.node for t in tensors if not isinstance(t, Number)], values))
    return [
        Number(build.Weak(t.weak.kind, functools.partial(_replaced, t.weak, values)))
        if isinstance(t, Number)
        else Tensor(next(nodes))
        for t in tensors
    ]


def _replaced(number: build.Weak, values: Mapping[Node, Node], dtype: DType) -> Node:
    return substituted([number.node(dtype)], values)[0]
