"""Symbolic sizes: polynomials with integer coefficients over named symbols and floor divisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import gcd, prod

UNBOUNDED = 2**31 - 1  # the maximum assumed for a symbol without `max`


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A named size. `opt` is the size to optimise for; every value is a multiple of
    `multiple_of`.
    """

    name: str
    min: int = field(default=0, compare=False)
    max: int = field(default=UNBOUNDED, compare=False)
    opt: int = field(default=1, compare=False)
    multiple_of: int = field(default=1, compare=False)

    @property
    def identifier(self) -> str:
        """The name of the size in kernels and generated text; unique to the symbol."""
        plain = self.name.isascii() and self.name.isidentifier() and self.name[0] != "_"
        return f"size_{self.name}" if plain else f"size__{self.name.encode().hex()}"


@dataclass(frozen=True, slots=True, order=True)
class Quotient:
    """`floor(dividend / divisor)`, kept if the division is not exact."""

    dividend: Sym
    divisor: int


Atom = Symbol | Quotient


Monomial = tuple[Atom, ...]  # sorted by text; () is the constant


@dataclass(frozen=True, slots=True)
class Sym:
    """A sum of monomials with integer coefficients, never a plain constant; use `Dim` in
    annotations.
    """

    parts: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Dim) -> Dim:
        return _make(_merge(_parts(self), _parts(other)))

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + other * -1

    def __rsub__(self, other: Dim) -> Dim:
        return self * -1 + other

    def __mul__(self, other: Dim) -> Dim:
        factors: dict[Monomial, int] = {}
        for left, a in self.parts:
            for right, b in _parts(other).items():
                key = tuple(sorted(left + right, key=str))
                factors[key] = factors.get(key, 0) + a * b
        return _make(factors)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Dim) -> Dim:
        if isinstance(divisor, Sym):
            return _exact(self, divisor)
        if divisor == 1:
            return self
        whole = {m: c // divisor for m, c in self.parts if c % divisor == 0 and m}
        rest = {m: c for m, c in self.parts if c % divisor or not m}
        constant = rest.pop((), 0)
        if not rest:
            return _make(_merge(whole, {(): constant // divisor}))
        # floor((g a + k) / (g n)) = floor((a + floor(k / g)) / n)
        common = gcd(divisor, *rest.values())
        rest, constant, divisor = (
            {m: c // common for m, c in rest.items()},
            constant // common,
            divisor // common,
        )
        inside = _quotient_alone(rest)
        if inside is not None:  # floor((floor(a / m) + k) / n) = floor((a + k m) / (m n))
            nested = (inside.dividend + constant * inside.divisor) // (inside.divisor * divisor)
            return _make(_merge(whole, _parts(nested)))
        quotient, left = divmod(constant, divisor)
        inner = _make(_merge(rest, {(): left}))
        assert isinstance(inner, Sym)
        return _make(_merge(whole, {(Quotient(inner, divisor),): 1}, {(): quotient}))

    def __mod__(self, divisor: int) -> Dim:
        return self - (self // divisor) * divisor

    def __str__(self) -> str:
        return " + ".join(_text(m, c) for m, c in self.parts).replace("+ -", "- ")

    def __repr__(self) -> str:
        return str(self)

    def __hash__(self) -> int:
        return hash(self.parts)


Dim = int | Sym


Shape = tuple[Dim, ...]


def _parts(dim: Dim) -> dict[Monomial, int]:
    return dict(dim.parts) if isinstance(dim, Sym) else ({(): dim} if dim else {})


def _merge(*many: Mapping[Monomial, int]) -> dict[Monomial, int]:
    factors: dict[Monomial, int] = {}
    for parts in many:
        for monomial, factor in parts.items():
            factors[monomial] = factors.get(monomial, 0) + factor
    return factors


def _make(parts: Mapping[Monomial, int]) -> Dim:
    kept = {m: c for m, c in parts.items() if c}
    for monomial, factor in kept.items():
        for atom in monomial:
            if isinstance(atom, Quotient) and _cancels(atom, factor):
                return _cancelled(kept, monomial, atom)
    if not any(kept):  # only the constant monomial, or nothing
        return kept.get((), 0)
    return Sym(tuple(sorted(kept.items(), key=lambda item: (-len(item[0]), str(item[0])))))


def _cancels(quotient: Quotient, factor: int) -> bool:
    """Whether a factor undoes a division, which is exact as symbols are multiples."""
    by = quotient.divisor
    return factor % by == 0 and divisor(quotient.dividend) % by == 0


def _cancelled(parts: Mapping[Monomial, int], monomial: Monomial, quotient: Quotient) -> Dim:
    """A sum with one division undone."""
    others = list(monomial)
    others.remove(quotient)
    factor = parts[monomial] // quotient.divisor
    rest = _make({m: c for m, c in parts.items() if m != monomial})
    return quotient.dividend * _make({tuple(others): factor}) + rest


def _quotient_alone(parts: Mapping[Monomial, int]) -> Quotient | None:
    """The quotient that a sum consists of, if it is just that."""
    if len(parts) == 1:
        ((atoms, factor),) = parts.items()
        if factor == 1 and len(atoms) == 1 and isinstance(atoms[0], Quotient):
            return atoms[0]
    return None


def _exact(dividend: Sym, divisor: Sym) -> Dim:
    """The quotient of two polynomials if the divisor is a monomial that divides every term."""
    if dividend == divisor:
        return 1
    if len(divisor.parts) == 1:
        (atoms, factor) = divisor.parts[0]
        factors: dict[Monomial, int] = {}
        for monomial, c in dividend.parts:
            left = list(monomial)
            for atom in atoms:
                if atom not in left:
                    break
                left.remove(atom)
            else:
                if c % factor == 0:
                    factors[tuple(left)] = c // factor
                    continue
            break
        else:
            return _make(factors)
    raise ValueError(f"{dividend} cannot be divided by {divisor}")


def _text(monomial: Monomial, factor: int) -> str:
    names = "*".join(
        a.name if isinstance(a, Symbol) else f"(({a.dividend})//{a.divisor})" for a in monomial
    )
    if not names:
        return str(factor)
    return names if factor == 1 else f"{factor}*{names}"


def whole(dim: Dim, by: Dim) -> Dim | None:
    """The quotient of two sizes, if it is exact for all values of their symbols."""
    if isinstance(dim, int) and isinstance(by, int):
        return dim // by if by and dim % by == 0 else None
    if by == 0 or isinstance(dim, int):
        return None
    try:
        quotient = dim // by
    except ValueError:
        return None
    return quotient if quotient * by == dim else None


def divisor(dim: Dim) -> int:
    """A number that divides every value of the size."""
    if not isinstance(dim, Sym):
        return abs(dim)
    return gcd(
        *(c * prod(a.multiple_of if isinstance(a, Symbol) else 1 for a in m) for m, c in dim.parts)
    )
