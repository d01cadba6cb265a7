"""Operations whose gradient is declared beside their meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.ir.graph import Graph, Node, zeros
from xlac.ir.op import ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops.checks import several
from xlac.ops.control import bodies
from xlac.ops.control.meaning import AppliedBody, put_in


@declare
class CustomGradient(AppliedBody):
    """Gives what `body` gives, and goes backwards by `gradient` instead of by the derivative of the
    body.

    The gradient takes the operands, the results, and a cotangent for each result of a float type;
    it gives a cotangent for each operand of a float type.
    """

    mnemonic = "custom_gradient"
    operands = ("*args",)
    body: Graph | None = None
    gradient: Graph | None = None
    name: str = ""

    def infer(self, *types: Type) -> Types:
        if self.body is None or self.gradient is None:
            raise ShapeError("custom_gradient needs a body and a gradient", attribute="body")
        bodies.check(self.mnemonic, self.body, types)
        gives = bodies.outputs(self.body)
        takes = [*types, *gives, *floats(gives)]
        bodies.check(self.mnemonic, self.gradient, takes, floats(types), "gradient")
        return several(gives)

    @property
    def meaning(self) -> Graph:
        assert self.body is not None
        return self.body

    def bodies(self) -> Sequence[Any]:
        return tuple(graph for graph in (self.body, self.gradient) if graph is not None)


@declare
class CustomChange(AppliedBody):
    """How results of float types change with operands of float types, where a gradient is declared:
    what that is the transpose of.

    Operands are those of `gradient` up to its cotangents, then the changes of operands of float
    types. `change` takes the same and gives the changes of results; it is computed from the
    gradient, and is not there where the gradient is not linear.
    """

    mnemonic = "custom_change"
    operands = ("*args",)
    gradient: Graph | None = None
    change: Graph | None = None
    results: tuple[Type, ...] = ()

    def infer(self, *types: Type) -> Types:
        if self.gradient is None or not self.results:
            raise ShapeError("custom_change needs a gradient and results", attribute="gradient")
        changes = bodies.outputs(self.gradient)
        known = [*types[: len(types) - len(changes)], *self.results]
        bodies.check(self.mnemonic, self.gradient, known, types[-len(changes) :], "gradient")
        return several(self.results)

    @property
    def meaning(self) -> Graph:
        assert self.change is not None, "a gradient that is not linear has no change"
        return self.change

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None] | None:
        """As declared."""
        assert self.gradient is not None
        count = len(self.gradient.outputs)
        known = node.inputs[: len(node.inputs) - count]
        if any(linear[: len(known)]):
            return None
        given = [ct or zeros(t) for ct, t in zip(cotangents, self.results, strict=True)]
        return [*[None] * len(known), *put_in(self.gradient, [*known, *given])]

    def bodies(self) -> Sequence[Any]:
        return tuple(graph for graph in (self.gradient, self.change) if graph is not None)


def floats(types: Sequence[Type]) -> list[Type]:
    """Those of float types."""
    return [t for t in types if t.dtype.is_float]
