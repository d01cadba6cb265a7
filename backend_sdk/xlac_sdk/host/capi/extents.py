"""Open sizes as C expressions over integers, with division rounding down."""

from __future__ import annotations

from collections.abc import Mapping

from xlac_sdk.dims import Atom, Dim, Sym, Symbol, bounds


def text(dim: Dim, names: Mapping[str, str]) -> str:
    """An expression with operands of type int64_t or ptrdiff_t; `names` has the C text of each
    size.
    """
    if not isinstance(dim, Sym):
        return str(dim)
    terms = [_term(atoms, factor, names) for atoms, factor in dim.parts]
    return f"({' + '.join(terms)})" if len(terms) > 1 else terms[0]


def _term(atoms: tuple[Atom, ...], factor: int, names: Mapping[str, str]) -> str:
    factors = [_atom(atom, names) for atom in atoms]
    if factor != 1 or not factors:
        factors.append(str(factor) if factor >= 0 else f"({factor})")
    return " * ".join(factors)


def _atom(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom.name]
    least = bounds(atom.dividend)[0]
    # C's division rounds towards zero, so dividends must not be negative
    lift = max(0, -(least // atom.divisor))
    dividend = text(atom.dividend + lift * atom.divisor, names)
    return (
        f"(({dividend}) / {atom.divisor} - {lift})" if lift else f"(({dividend}) / {atom.divisor})"
    )
