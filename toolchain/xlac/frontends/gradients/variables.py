"""The variables of differentiation: fresh parameters in place of a function's arguments, and the
substitution back.
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
    """The leaves of a call that a function is differentiated by, as fresh parameters: other uses of
    the same tensors inside the function stay constant.

    Integer and bool leaves are passed unchanged. A Python number becomes a parameter for each type
    in which it is used.
    """

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.given = given
        self._inputs = [_input(tensor, number) for number, tensor in enumerate(given)]
        self._known: dict[Node, Node] = {}

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors that the function is called with."""
        return [
            tensor if one is None else one.tensor
            for tensor, one in zip(self.given, self._inputs, strict=True)
        ]

    def params(self) -> dict[Node, tuple[int, DType | None]]:
        """The parameters that were used: the leaf of each, and the type of a number."""
        return {
            node: (number, dtype)
            for number, one in enumerate(self._inputs)
            if one is not None
            for dtype, node in one.params()
        }

    def cut(self, results: Sequence[Node]) -> list[Node]:
        """Results of the function as a graph over parameters alone; other values that it reads from
        outside become parameters too, so that their own computation is not traversed.
        """
        own = dependents(results, self.params())
        read = {i: None for node in own for i in node.inputs if i not in own and i.inputs}
        read |= {node: None for node in results if node not in own and node.inputs}
        stand = dict(zip(read, fresh([node.type for node in read], "k"), strict=True))
        self._known |= {param: node for node, param in stand.items()}
        return substituted(results, stand)

    def values(self) -> dict[Node, Node]:
        """Maps each parameter to its value outside of the function."""
        return self._known | {
            node: in_type(self.given[number], dtype)
            for node, (number, dtype) in self.params().items()
        }

    def gathered(self, parts: Mapping[Node, Node]) -> list[Tensor | None]:
        """Collects per-parameter values (gradients) by leaf; None for integers."""
        by_leaf: list[Tensor | None] = [None] * len(self.given)
        sums: dict[int, Node] = {}
        for node, (number, dtype) in self.params().items():
            part = parts[node]
            if dtype is None:
                by_leaf[number] = Tensor(part)
            else:
                part = build.cast(part, DType.F64)
                sums[number] = build.add(sums[number], part) if number in sums else part
        for number, total in sums.items():
            by_leaf[number] = weak(total)
        return by_leaf


def _input(given: Tensor, number: int) -> Input | None:
    if isinstance(given, Number):
        return Input("d", f"d{number}", float) if given.weak.kind is float else None
    return Input("d", f"d{number}", given.node.type) if given.dtype.is_float else None


def weak(node: Node) -> Number:
    """An f64 node as a number with a weak type."""
    return Number(build.Weak(float, functools.partial(build.cast, node)))


def in_type(tensor: Tensor, dtype: DType | None) -> Node:
    """A tensor as a node; a number in the given type."""
    return tensor.weak.node(dtype) if isinstance(tensor, Number) else tensor.node


def is_float(tensor: Tensor) -> bool:
    """Whether a tensor or number is a float, hence differentiable."""
    return tensor.weak.kind is float if isinstance(tensor, Number) else tensor.dtype.is_float


def exact(tensor: Tensor) -> Node:
    """A float as a node; a Python number in f64."""
    return in_type(tensor, DType.F64)


def alike(node: Node, tensor: Tensor) -> Tensor:
    """A node of the type that `exact` gives, as a weak number if `tensor` is one."""
    return weak(node) if isinstance(tensor, Number) else Tensor(node)


def outside(tensors: Sequence[Tensor], values: Mapping[Node, Node]) -> list[Tensor]:
    """Tensors with their parameters replaced by the values outside."""
    nodes = iter(substituted([t.node for t in tensors if not isinstance(t, Number)], values))
    return [
        Number(build.Weak(t.weak.kind, functools.partial(_replaced, t.weak, values)))
        if isinstance(t, Number)
        else Tensor(next(nodes))
        for t in tensors
    ]


def _replaced(number: build.Weak, values: Mapping[Node, Node], dtype: DType) -> Node:
    return substituted([number.node(dtype)], values)[0]
