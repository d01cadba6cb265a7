"""Operations that the optimizer must not look through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.leading import one_by_one
from xlac.ir.op import Array, Elementwise, Index, Op, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops.checks import ANY, several
from xlac.ops.sampling import dtypes_and_shapes
from xlac_sdk.kernel_ir.kernel import Expr
from xlac_sdk.programs.host_calls import PYTHON


@declare
class CustomCall(Op):
    """A function that somebody else provides, by name. Only a backend or a host that knows it can
    run it.
    """

    mnemonic = "custom_call"
    operands = ("*xs",)
    name: str = ""
    attributes: tuple[tuple[str, Any], ...] = ()
    results: tuple[Type, ...] = ()

    def infer(self, *types: Type) -> Types:
        if not self.name or not self.results:
            raise ShapeError(
                "a custom call needs a name and the types of its results", attribute="name"
            )
        return several(self.results)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        return one_by_one(node, inputs, mapped, size)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        function = FUNCTIONS.get(self.name)
        if function is None:
            raise LookupError(f"there is no implementation of the custom call {self.name!r}")
        returned = function(*arrays, **dict(self.attributes))
        return (
            tuple(np.asarray(a) for a in returned)
            if isinstance(returned, tuple)
            else np.asarray(returned)
        )


FUNCTIONS: dict[str, Any] = {}
"""NumPy meanings of custom calls that someone registered, by name."""


def register(functions: Mapping[str, Any]) -> None:
    """Makes custom calls known to the interpreter."""
    FUNCTIONS.update(functions)


def python_calls(graph: Graph) -> Iterator[Node]:
    """The calls of Python functions of this process, in bodies too."""
    for node in graph.nodes():
        if isinstance(node.op, CustomCall) and node.op.name == PYTHON:
            yield node
        for body in node.op.bodies():
            yield from python_calls(body)


@declare
class Barrier(Elementwise):
    """x itself; no rewrite moves, merges or removes anything across it."""

    mnemonic = "barrier"
    creates = frozenset()
    leading = {}

    def infer(self, *types: Type) -> Type:
        (x,) = types
        return x

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [apply("barrier", ct)]

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[0]

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        return inputs[0].read(at)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return dtypes_and_shapes(1, ANY)
