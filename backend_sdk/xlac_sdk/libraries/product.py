"""Matrix products that a library computes whole: what a target says of its library, and one product
said in full.

A schedule makes a `Call` named `PRODUCT` of a product; its one attribute, `product`, says all that
a backend needs. The call's arguments are left, right, the addend and the bias where there are such,
the result, and the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from xlac_sdk.dims import Dim, evaluate, static
from xlac_sdk.dtypes import DType

PRODUCT = "product"  # the name of the call
RELU, GELU = "relu", "gelu"  # gelu by its tanh formula


@dataclass(frozen=True, slots=True)
class Products:
    """Matrix products, or convolutions, of one operand type that a target's library computes, and
    from which size on that is worth it."""

    library: str  # its name, for people
    operands: DType
    results: frozenset[DType]
    # of RELU and GELU, for models whose precision is "fast": they need not be exact
    activations: frozenset[str]
    least: int  # rows, columns and depth, each; of a convolution, channels and filters of a group
    flops: int
    workspace: int  # bytes that it may use while it runs
    # activations that it computes as they are meant: they need no "fast"
    exact: frozenset[str] = frozenset()
    wide: bool = False  # a bias may be f32 beside halves
    # it is worth it only where operands may be rounded: for models whose precision is "fast"
    rounds: bool = False

    def to_json(self) -> list[Any]:
        """As JSON: `Products.from_json` makes the same of it."""
        results, activations = sorted(map(str, self.results)), sorted(self.activations)
        numbers = [self.least, self.flops, self.workspace]
        return [
            self.library,
            str(self.operands),
            results,
            activations,
            *numbers,
            sorted(self.exact),
            self.wide,
            self.rounds,
        ]

    @staticmethod
    def from_json(facts: list[Any]) -> Products:
        """Raises TypeError or ValueError for anything else than what `to_json` gives."""
        library, operands, results, activations, least, flops, workspace, exact, wide, rounds = (
            facts
        )
        types, ends = frozenset(map(DType, results)), frozenset(activations)
        return Products(
            library,
            DType(operands),
            types,
            ends,
            least,
            flops,
            workspace,
            frozenset(exact),
            wide,
            rounds,
        )


@dataclass(frozen=True, slots=True)
class Matrices:
    """Where the matrices of an operand lie in its argument: how far a step along each axis moves,
    in elements.
    """

    dtype: DType
    rows: Dim
    columns: Dim
    batch: Dim = 0
    offset: Dim = 0  # of the first element

    def at(self, sizes: Mapping[str, int]) -> Matrices:
        """For one set of sizes."""
        known = (
            evaluate(step, sizes) for step in (self.rows, self.columns, self.batch, self.offset)
        )
        return Matrices(self.dtype, *known)

    def view(self, argument: NDArray[Any], extents: tuple[int, ...]) -> NDArray[Any]:
        """The matrices, for steps that are known, as an array of these extents over the argument's
        memory.
        """
        batch, rows, columns, offset = static((self.batch, self.rows, self.columns, self.offset))
        memory = argument.reshape(-1)[offset:]
        return as_strided(
            memory, extents, tuple(step * memory.itemsize for step in (batch, rows, columns))
        )


@dataclass(frozen=True, slots=True)
class Product:
    """`result = activation(scale * left @ right + addend + bias)` for each of `count` pairs of
    matrices.

    All of it is f32, rounded once to the result's type. The addend is of that type and may be where
    the result goes; so is the bias, which has a number for each column.
    """

    count: Dim
    rows: Dim
    columns: Dim
    depth: Dim
    left: Matrices
    right: Matrices
    result: Matrices
    addend: Matrices | None = None
    biased: bool = False
    bias_offset: Dim = 0
    scale: float = 1.0
    activation: str = ""
    workspace: int = 0
    tf32: bool = False  # f32 operands may be rounded to tf32

    def at(self, sizes: Mapping[str, int]) -> Product:
        """For one set of sizes."""
        return replace(
            self,
            count=evaluate(self.count, sizes),
            rows=evaluate(self.rows, sizes),
            columns=evaluate(self.columns, sizes),
            depth=evaluate(self.depth, sizes),
            left=self.left.at(sizes),
            right=self.right.at(sizes),
            result=self.result.at(sizes),
            addend=self.addend and self.addend.at(sizes),
            bias_offset=evaluate(self.bias_offset, sizes),
        )

    def compute(self, left: NDArray[Any], right: NDArray[Any], *others: NDArray[Any]) -> None:
        """What a call with these arguments does, for sizes that are known, in float64 until it is
        rounded.
        """
        count, rows, columns, depth, start = static(
            (self.count, self.rows, self.columns, self.depth, self.bias_offset)
        )
        if not count * rows * columns:
            return
        rest, extents = list(others), (count, rows, columns)
        with np.errstate(all="ignore"):
            lefts = self.left.view(left, (count, rows, depth)).astype(np.float64)
            total = (
                np.matmul(lefts, self.right.view(right, (count, depth, columns)).astype(np.float64))
                * self.scale
            )
            if self.addend is not None:
                total = total + self.addend.view(rest.pop(0), extents).astype(np.float64)
            if self.biased:
                total = total + rest.pop(0).reshape(-1)[start : start + columns].astype(np.float64)
            out = self.result.view(rest.pop(0), extents)
            out[...] = activated(self.activation, total).astype(out.dtype)


def activated(name: str, x: NDArray[Any]) -> NDArray[Any]:
    """What an activation of a product gives."""
    if name == RELU:
        x = np.maximum(x, 0)
    if name == GELU:
        x = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x
