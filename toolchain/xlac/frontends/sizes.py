"""Sizes that a caller gives for an imported model's symbols: numbers, or ranges."""

from __future__ import annotations

from xlac.ir import ranges
from xlac.ir.dims import UNBOUNDED, Dim, Sym, Symbol, symbol
from xlac_sdk.source import Diagnostic, SourceError

OPT = 1  # the size to optimise for if the range does not include the default
DimValue = int | str | tuple[int, int] | Symbol


def sized(name: str, given: DimValue) -> Dim:
    """A size given as a number, or a range such as `1..8`. Raises SourceError."""
    if isinstance(given, Symbol):
        return Sym((((given,), 1),))
    if isinstance(given, tuple):
        low, high = given
    elif ends := ranges.read(str(given), 0, UNBOUNDED):
        low, high = ends
    else:
        raise SourceError(
            Diagnostic(
                "XL2014",
                f"{given!r} is not a valid size for '{name}'",
                hint=f"{name}=8 or {name}=1..8",
            )
        )
    if not 0 <= low <= high <= UNBOUNDED:
        raise SourceError(
            Diagnostic("XL2014", f"the range {low}..{high} of '{name}' is empty or too large")
        )
    return (
        low
        if low == high
        else symbol(name, low, high, opt=max(low, OPT) if high == UNBOUNDED else high)
    )
