"""Sizes of tensors: integers, or expressions over named symbols with bounds.

A symbolic size is a polynomial with integer coefficients over atoms; an atom is a symbol or a floor
division that did not cancel. The form is canonical, so equal expressions are equal objects by
value.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xlac_sdk.symbolic import (
    UNBOUNDED,
    Atom,
    Dim,
    Monomial,
    Quotient,
    Shape,
    Sym,
    Symbol,
    divisor,
    whole,
)

__all__ = [
    "UNBOUNDED", "Atom", "Dim", "Monomial", "OpenSize", "Quotient", "Shape", "Sym", "Symbol",
    "bounds", "ceil_div", "divisor", "evaluate", "size_hint", "static", "substitute", "symbol",
    "symbols", "upper_bound", "volume", "whole",
]  # fmt: skip


def symbol(
    name: str, min: int = 0, max: int = UNBOUNDED, opt: int | None = None, multiple_of: int = 1
) -> Sym:
    """A size that is one symbol."""
    return Sym((((Symbol(name, min, max, opt if opt is not None else max, multiple_of),), 1),))


def symbols(dim: Dim) -> frozenset[Symbol]:
    """Every symbol in a size."""
    if not isinstance(dim, Sym):
        return frozenset()
    atoms: set[Symbol] = set()
    for monomial, _ in dim.parts:
        for atom in monomial:
            atoms |= {atom} if isinstance(atom, Symbol) else symbols(atom.dividend)
    return frozenset(atoms)


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """The size with symbols replaced by name."""
    if not isinstance(dim, Sym):
        return dim
    result: Dim = 0
    for monomial, factor in dim.parts:
        term: Dim = factor
        for atom in monomial:
            if isinstance(atom, Symbol):
                term = term * values.get(atom.name, Sym((((atom,), 1),)))
            else:
                term = term * (substitute(atom.dividend, values) // atom.divisor)
        result = result + term
    return result


def bounds(dim: Dim) -> tuple[int, int]:
    """The minimum and maximum, from the bounds of the symbols (not always tight)."""
    if not isinstance(dim, Sym):
        return dim, dim
    low = high = 0
    for monomial, factor in dim.parts:
        ends = [(1, 1)]
        for atom in monomial:
            if isinstance(atom, Symbol):
                ends.append((atom.min, atom.max))
            else:
                inner = bounds(atom.dividend)
                ends.append((inner[0] // atom.divisor, inner[1] // atom.divisor))
        small, large = prod(e[0] for e in ends), prod(e[1] for e in ends)
        low += factor * (small if factor > 0 else large)
        high += factor * (large if factor > 0 else small)
    return low, high


def size_hint(dim: Dim) -> int:
    """The size for the `opt` value of every symbol, used by cost models."""
    value = substitute(dim, {s.name: s.opt for s in symbols(dim)})
    assert isinstance(value, int)
    return value


def upper_bound(dim: Dim) -> int:
    """The maximum of a size, for which memory is planned."""
    return bounds(dim)[1]


def evaluate(dim: Dim, values: Mapping[str, int]) -> int:
    """The size for given values of its symbols, by name. Raises KeyError if one is missing."""
    if not isinstance(dim, Sym):
        return dim
    total = 0
    for monomial, factor in dim.parts:
        for atom in monomial:
            factor *= (
                values[atom.name]
                if isinstance(atom, Symbol)
                else evaluate(atom.dividend, values) // atom.divisor
            )
        total += factor
    return total


def ceil_div(dim: Dim, by: int) -> Dim:
    """The size divided by `by`, rounded up."""
    return (dim + (by - 1)) // by


def volume(shape: Shape) -> Dim:
    """The number of elements of a shape."""
    count: Dim = 1
    for extent in shape:
        count = count * extent
    return count


class OpenSize(TypeError):
    """A symbolic size where a static one is required."""


def static(shape: Shape) -> tuple[int, ...]:
    """A shape of integers. Raises OpenSize for a symbolic one."""
    for extent in shape:
        if not isinstance(extent, int):
            raise OpenSize(f"size {extent} must be known at compile time")
    return tuple(e for e in shape if isinstance(e, int))
