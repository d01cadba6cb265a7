"""Matrix products computed by a library: a target's description of its library, and the description
of one product.

A schedule makes a `Call` named `PRODUCT` of a product; its one attribute, `product`, has all that a
backend needs. The call's arguments are left, right, the addend and the bias if present, the result,
and the workspace.
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
RELU, GELU = "relu", "gelu"  # gelu by its tanh approximation


@dataclass(frozen=True, slots=True)
class Products:
    """The matrix products, or convolutions, of one operand type that a target's library supports,
    and the sizes from which it pays.
    """

    library: str  # its name in messages
    operands: DType
    results: frozenset[DType]
    # RELU and GELU, for models with precision "fast": they need not be exact
    activations: frozenset[str]
    # the fewest rows, columns and depth, each; of a convolution, channels and filters of a group
    least: int
    flops: int
    workspace: int  # bytes of temporary memory
    # activations that it computes exactly, which do not need "fast"
    exact: frozenset[str] = frozenset()
    wide: bool = False  # a bias may be f32 with 16-bit operands
    # whether it pays only if operands may be rounded: for models with precision "fast"
    rounds: bool = False

    def to_json(self) -> list[Any]:
        """As JSON, the inverse of `from_json`."""
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
        """The inverse of `to_json`. Raises TypeError or ValueError for anything else."""
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
    """The layout of an operand's matrices in its argument: strides in elements."""

    dtype: DType
    rows: Dim
    columns: Dim
    batch: Dim = 0
    offset: Dim = 0  # of the first element

    def at(self, sizes: Mapping[str, int]) -> Matrices:
        """With symbolic sizes replaced by values."""
        known = (
            evaluate(step, sizes) for step in (self.rows, self.columns, self.batch, self.offset)
        )
        return Matrices(self.dtype, *known)

    def view(self, argument: NDArray[Any], extents: tuple[int, ...]) -> NDArray[Any]:
        """The matrices with these extents as a view of the argument's memory, for known strides."""
        batch, rows, columns, offset = static((self.batch, self.rows, self.columns, self.offset))
        memory = argument.reshape(-1)[offset:]
        return as_strided(
            memory, extents, tuple(step * memory.itemsize for step in (batch, rows, columns))
        )


@dataclass(frozen=True, slots=True)
class Product:
    """`result = activation(scale * left @ right + addend + bias)` for each of `count` pairs of
    matrices.

    Computed in f32, rounded once to the result's type. The addend has that type and may share
    memory with the result; the bias also has it, with a number for each column.
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
        """With symbolic sizes replaced by values."""
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
        """The reference implementation of a call with known sizes, in float64 until the final
        rounding.
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
    """The reference implementation of an activation."""
    if name == RELU:
        x = np.maximum(x, 0)
    if name == GELU:
        x = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x
