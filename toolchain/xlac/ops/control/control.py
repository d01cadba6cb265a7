"""Branches, loops and calls. A body is a closed graph: what it captures is passed to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, static
from xlac.ir.faults import DeclaredFault, OutOfRange
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, Op, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops.checks import several
from xlac.ops.control import bodies
from xlac_sdk.dtypes import DType


@declare
class Pick(Op):
    """One result of a node that has several, whose types and arrays it is given."""

    mnemonic = "pick"
    index: int = 0

    def infer(self, *types: Type) -> Type:
        if not 0 <= self.index < len(types):
            raise ShapeError(
                f"there is no result {self.index} among {len(types)}", attribute="index"
            )
        return types[self.index]

    def evaluate(self, *arrays: Array) -> Array:
        return arrays[self.index]


@declare
class Cond(Op):
    """Runs the branch that a number names, out of range the last. All give the same types.

    `alike`: all ranks of a mesh take the same branch, so collectives may be inside.
    """

    mnemonic = "cond"
    operands = ("index", "*args")
    branches: tuple[Graph, ...] = ()
    alike: bool = False

    def infer(self, *types: Type) -> Types:
        index, *args = types
        if not self.branches:
            raise ShapeError("cond needs at least one branch", attribute="branches")
        if index != Type(DType.I32):
            raise ShapeError(
                f"the number of a branch is i32[], got {index}", operand=0, hint="cast it first"
            )
        gives = bodies.outputs(self.branches[0])
        for branch in self.branches:
            bodies.check(self.mnemonic, branch, args, gives, "branches")
        return several(gives)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        index, *args = arrays
        chosen = int(index)
        inside = 0 <= chosen < len(self.branches)
        return alone(bodies.run(self.branches[chosen if inside else -1], args))

    def bodies(self) -> Sequence[Graph]:
        return self.branches

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        return (OutOfRange(inputs[0], (len(self.branches),), what="branch {value}"),)


@declare
class While(Op):
    """Runs `body` on the carried values as long as `cond` of them is true.

    `alike`: all ranks of a mesh take as many steps, so collectives may be inside.
    """

    mnemonic = "while"
    operands = ("*carry",)
    cond: Graph | None = None
    body: Graph | None = None
    alike: bool = False

    def infer(self, *types: Type) -> Types:
        if self.cond is None or self.body is None:
            raise ShapeError("while needs a condition and a body", attribute="body")
        bodies.check(self.mnemonic, self.cond, types, [Type(DType.BOOL)], "cond")
        bodies.check(self.mnemonic, self.body, types, types)
        return several(types)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        assert self.cond is not None and self.body is not None
        carry = list(arrays)
        while bool(bodies.run(self.cond, carry)[0]):
            carry = bodies.run(self.body, carry)
        return alone(carry)

    def bodies(self) -> Sequence[Any]:
        return tuple(graph for graph in (self.cond, self.body) if graph is not None)


@declare
class Scan(Op):
    """Runs `body` once for each of `length` steps, along axis 0 of the scanned tensors.

    Operands are the first carried values, `scanned` tensors, then what every step sees alike. The
    body takes the carried values, the slices of its step and the rest; it gives the new carried
    values, then what the step yields. The results are the last carried values and the yields
    stacked along a new axis 0. `reverse` goes from the last slice to the first; each step's yields
    stay at its place. With `checkpoint_every` its derivative keeps the carried values of every so
    many steps, and makes again what else it needs of them; 0 keeps all that it needs.
    """

    mnemonic = "scan"
    operands = ("*args",)
    body: Graph | None = None
    length: Dim = 0
    carries: int = 0
    scanned: int = 0
    reverse: bool = False
    checkpoint_every: int = 0

    def infer(self, *types: Type) -> Types:
        if self.body is None or len(types) < self.carries + self.scanned:
            raise ShapeError(
                "scan needs a body, and as many operands as it carries and scans", attribute="body"
            )
        carry, xs, rest = self.parts(types)
        for number, x in enumerate(xs, self.carries):
            if not x.shape or x.shape[0] != self.length:
                raise ShapeError(
                    f"scan of {self.length} steps needs that many slices along axis 0, got {x}",
                    operand=number,
                )
        slices = [x.with_shape(x.shape[1:]) for x in xs]
        bodies.check(self.mnemonic, self.body, [*carry, *slices, *rest])
        gives = bodies.outputs(self.body)
        if gives[: self.carries] != tuple(carry):
            raise ShapeError(
                f"the body of scan carries {bodies.listed(carry)}, but gives "
                f"{bodies.listed(gives[: self.carries])}",
                attribute="body",
            )
        return several(
            [*carry, *(y.with_shape((self.length, *y.shape)) for y in gives[self.carries :])]
        )

    def parts(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Operands as carried, scanned and the rest."""
        end = self.carries + self.scanned
        return values[: self.carries], values[self.carries : end], values[end:]

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        assert self.body is not None and isinstance(self.length, int)
        first, xs, rest = self.parts(arrays)
        carry = list(first)
        yielded = bodies.outputs(self.body)[self.carries :]
        rows: list[list[Array]] = [[] for _ in yielded]
        steps = range(self.length)
        for step in reversed(steps) if self.reverse else steps:
            results = bodies.run(self.body, [*carry, *(x[step] for x in xs), *rest])
            carry = results[: self.carries]
            for row, value in zip(rows, results[self.carries :], strict=True):
                row.append(value)
        stacked = [
            np.stack(row[::-1] if self.reverse else row)
            if row
            else np.empty((0, *static(y.shape)), y.dtype.numpy)
            for row, y in zip(rows, yielded, strict=True)
        ]
        return alone([*carry, *stacked])

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)


@declare
class Call(Op):
    """Runs a graph: a function used more than once, kept apart."""

    mnemonic = "call"
    operands = ("*args",)
    body: Graph | None = None
    name: str = ""

    def infer(self, *types: Type) -> Types:
        if self.body is None:
            raise ShapeError("call needs a body", attribute="body")
        bodies.check(self.mnemonic, self.body, types)
        return several(bodies.outputs(self.body))

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        assert self.body is not None
        return alone(bodies.run(self.body, arrays))

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)


def alone(arrays: Sequence[Array]) -> Array | tuple[Array, ...]:
    """One result by itself, several as a tuple."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays)
