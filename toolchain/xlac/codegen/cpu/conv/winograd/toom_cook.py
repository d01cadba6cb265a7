"""Short convolutions with fewer multiplications: polynomial products by evaluation at points
(Toom-Cook; Winograd's algorithm is a case of it).

`results` neighbouring results y of a filter g of three taps over the n = results + 2 values x that
they read are y = A ((G g) * (B x)), with n products instead of 3 * results. In two dimensions rows
are transformed, then columns.

The gradient of the filter, of x and cotangents z of the results, is G' ((B x) * (A' z)) by the same
matrices, as the sum of z y is linear in each of g, x and z.

Points come in pairs p and -p, so that each pair shares half of its transform. Those for four
results are ±sqrt(1/2) and ±sqrt(2), which are more accurate than ±1 and ±2: as reciprocals of each
other they keep the entries of A, B and G small.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import sqrt

import numpy as np

from xlac.codegen.core.contraction.contraction import multiply_add
from xlac.ir.op import Array
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

TAPS = 3
POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, sqrt(0.5), -sqrt(0.5), sqrt(2.0), -sqrt(2.0))}
"""The points for each number of results. The last point is infinity."""


@cache
def matrices(results: int) -> tuple[Array, Array, Array]:
    """A (results by n), G (n by 3) and B (n by n), in f64."""
    points = np.array(POINTS[results])
    n = len(points) + 1
    a, g, b = np.zeros((results, n)), np.zeros((n, TAPS)), np.zeros((n, n))
    for i, point in enumerate(points):
        others = np.delete(points, i)
        a[:, i] = point ** np.arange(results)
        g[i] = point ** np.arange(TAPS) / np.prod(point - others)
        b[i, :-1] = np.poly(others)[::-1]
    a[-1, -1] = g[-1, -1] = 1
    b[-1] = np.poly(points)[::-1]
    return a, g, b


def of_filters(builder: Builder, target: Target, results: int, taps: Sequence[Expr]) -> list[Expr]:
    """G g: the filter transform."""
    return _at_points(builder, target, matrices(results)[1], taps)


def of_values(builder: Builder, target: Target, results: int, values: Sequence[Expr]) -> list[Expr]:
    """B x: the input transform."""
    return _at_points(builder, target, matrices(results)[2], values)


def _at_points(
    builder: Builder, target: Target, matrix: Array, values: Sequence[Expr]
) -> list[Expr]:
    """A matrix with a row for each point times a vector of values."""
    last = len(matrix) - 1
    sums = {row: _combined(builder, target, matrix[row], values) for row in (0, last)}
    for i in range(1, last, 2):
        even = _combined(builder, target, (matrix[i] + matrix[i + 1]) / 2, values)
        odd = _combined(builder, target, (matrix[i] - matrix[i + 1]) / 2, values)
        sums[i], sums[i + 1] = _butterfly(builder, even, odd)
    return [sums[row] for row in range(last + 1)]


def of_cotangents(
    builder: Builder, target: Target, results: int, cotangents: Sequence[Expr]
) -> list[Expr]:
    """The transpose of A times cotangents of the results, for the gradient of the filter."""
    return _at_points(builder, target, matrices(results)[0].T, cotangents)


def of_products(
    builder: Builder, target: Target, results: int, products: Sequence[Expr]
) -> list[Expr]:
    """A y: the output transform."""
    return _from_points(builder, target, matrices(results)[0], products)


def of_gradients(
    builder: Builder, target: Target, results: int, products: Sequence[Expr]
) -> list[Expr]:
    """The transpose of G times products: the output transform of the gradient of the filter."""
    return _from_points(builder, target, matrices(results)[1].T, products)


def _from_points(
    builder: Builder, target: Target, matrix: Array, products: Sequence[Expr]
) -> list[Expr]:
    """A matrix with a column for each point times a vector of values at the points."""
    matrix, values = matrix.copy(), list(products)
    for i in range(1, len(values) - 1, 2):
        values[i], values[i + 1] = _butterfly(builder, values[i], values[i + 1])
        even, odd = matrix[:, i] + matrix[:, i + 1], matrix[:, i] - matrix[:, i + 1]
        matrix[:, i], matrix[:, i + 1] = even / 2, odd / 2
    return [_combined(builder, target, row, values) for row in matrix]


def _butterfly(builder: Builder, one: Expr, other: Expr) -> tuple[Expr, Expr]:
    return builder.let("v", build.apply(Primitive.ADD, one, other)), builder.let(
        "v", build.apply(Primitive.SUB, one, other)
    )


def _combined(builder: Builder, target: Target, factors: Array, values: Sequence[Expr]) -> Expr:
    """A linear combination with many coefficients of 0 and 1; values with coefficient 1
    come first.
    """
    terms = [(float(f), v) for f, v in zip(np.round(factors, 12), values, strict=True) if f]
    terms.sort(key=lambda term: term[0] != 1)
    total: Expr | None = None
    for factor, value in terms:
        if total is None:
            total = (
                value
                if factor == 1
                else build.apply(Primitive.MUL, value, Const(factor, value.dtype, value.lanes))
            )
        elif abs(factor) == 1:
            total = build.apply(Primitive.ADD if factor > 0 else Primitive.SUB, total, value)
        else:
            total = multiply_add(target, value, Const(factor, value.dtype, value.lanes), total)
    assert total is not None
    return builder.let("v", total)
