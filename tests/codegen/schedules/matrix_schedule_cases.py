"""Groups of a CPU whose schedules are drawn: small matrices that are factored or solved with."""

from __future__ import annotations

from collections.abc import Callable

from contraction_harness import TARGETS, group
from schedule_draws import Drawn, x

from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.linalg.cholesky import Cholesky
from xlac.ops.linalg.lu import Lu
from xlac.ops.linalg.matrices import on_diagonal
from xlac.ops.linalg.triangular_solve import TriangularSolve

AVX512, AVX2, SSE = TARGETS["avx512"], TARGETS["avx2"], TARGETS["sse"]
SHARED = {"threads": {"loops": 1, "grain": 1}}


def lu_factors() -> Group:
    made = Node.of(Lu(), x("x", 2, 9, 11))
    picks = [Node(Pick(index=n), (made,), t) for n, t in enumerate(made.results)]
    return group(Kind.MATRIX, made, *picks)


def dominant(*shape: int) -> Node:
    """Matrices with a large diagonal: positive definite by their lower triangle, and well
    conditioned.
    """
    small = build.mul(x("a", *shape), 0.25)
    return build.select(on_diagonal(shape), 4.0, small)


def lower_factors() -> Group:
    return group(Kind.MATRIX, Node.of(Cholesky(), dominant(3, 9, 9)))


def triangular(columns: int, **given: bool) -> Callable[[], Group]:
    op = TriangularSolve(**given)
    return lambda: group(Kind.MATRIX, Node.of(op, dominant(2, 7, 7), x("b", 2, 7, columns)))


MATRIX_CASES = {
    "lu": Drawn(lu_factors, AVX512, "factor", starts=(SHARED,)),
    "lu_sse": Drawn(lu_factors, SSE, "factor"),
    "cholesky": Drawn(lower_factors, AVX2, "factor", starts=(SHARED,)),
    "substitution": Drawn(triangular(70), AVX512, "substitution", starts=(SHARED,)),
    "substitution_avx2": Drawn(triangular(48), AVX2, "substitution", starts=(SHARED,)),
    "substitution_sse": Drawn(triangular(5, lower=False, unit=True), SSE, "substitution"),
}
