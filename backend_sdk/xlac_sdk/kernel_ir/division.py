"""Division of indices by numbers and by symbolic sizes."""

from __future__ import annotations

from xlac_sdk.kernel_ir.indexing import Number, divmod_constant, lift
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.polynomial import divmod_by


def div(a: Number, k: Number) -> Expr:
    """Index division by a positive number; the dividend is not negative."""
    return divmod_of(a, k)[0]


def mod(a: Number, k: Number) -> Expr:
    """Index remainder by a positive number; the dividend is not negative."""
    return divmod_of(a, k)[1]


def divmod_of(a: Number, k: Number) -> tuple[Expr, Expr]:
    """Quotient and remainder of an index by a positive number; the dividend is not negative."""
    by = lift(k)
    if isinstance(by, Const):
        return divmod_constant(lift(a), int(by.value))
    return divmod_by(lift(a), by)
