"""Names substituted by their values, for the bounds of loops before which nothing may stand."""

from __future__ import annotations

from collections.abc import Sequence

from xlac_sdk.kernel_ir.kernel import Expr, Let, Stmt, Var
from xlac_sdk.kernel_ir.rewrite import KernelRewriter


def inlined(exprs: tuple[Expr, ...], lets: Sequence[Stmt]) -> tuple[Expr, ...]:
    """Expressions with the names bound by straight-line Lets substituted (as shared objects, not
    copies).
    """
    known: dict[str, Expr] = {}

    def visit(expr: Expr) -> Expr:
        return known.get(expr.name, expr) if isinstance(expr, Var) else expr

    rewriter = KernelRewriter(visit)
    for let in lets:
        assert isinstance(let, Let) and not let.mutable, (
            "the bounds of a parallel loop are index arithmetic"
        )
        known[let.var.name] = rewriter.expr(let.value)
    return tuple(map(rewriter.expr, exprs))
