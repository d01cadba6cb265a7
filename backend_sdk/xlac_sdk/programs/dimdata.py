"""Sizes as plain data for JSON: a number, or a sum `[[factor, [factors…]], …]` of named sizes and
quotients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac_sdk.dims import Dim, Sym, Symbol

DEEPEST = 32  # the most nesting of quotients


def data_of(dim: Dim) -> Any:
    """The size as numbers, texts, lists and dicts."""
    if not isinstance(dim, Sym):
        return dim
    return [
        [
            factor,
            [
                a.name if isinstance(a, Symbol) else {"of": data_of(a.dividend), "by": a.divisor}
                for a in monomial
            ],
        ]
        for monomial, factor in dim.parts
    ]


def dim_of(data: Any, symbols: Mapping[str, Symbol], depth: int = 0) -> Dim:
    """The inverse of `data_of`. Raises ValueError for malformed data, and for a name that is not
    among the symbols.
    """
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    if not isinstance(data, list) or depth > DEEPEST:
        raise ValueError("a size must be a number or a sum")
    total: Dim = 0
    for term in data:
        match term:
            case [int(factor), list(atoms)]:
                product: Dim = factor
                for atom in atoms:
                    product = product * _atom(atom, symbols, depth)
                total = total + product
            case _:
                raise ValueError("a sum must have a factor and a list for each term")
    return total


def _atom(data: Any, symbols: Mapping[str, Symbol], depth: int) -> Dim:
    match data:
        case str(name) if name in symbols:
            return Sym((((symbols[name],), 1),))
        case {"of": dividend, "by": int(divisor)} if divisor > 0:
            return dim_of(dividend, symbols, depth + 1) // divisor
    raise ValueError(f"no size of the model: {str(data)[:80]}")
