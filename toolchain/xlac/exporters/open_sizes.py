"""Open sizes as arithmetic of the format: where an input holds a symbol, and a size computed from
symbols.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import UNBOUNDED, Dim, Quotient, Sym, Symbol, bounds, symbols
from xlac.ir.graph import Node

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class HeldSymbol:
    """Where a symbol is found: the axis of an input has the size factor * symbol + rest."""

    node: Node
    axis: int
    factor: int
    rest: int


def held(symbol: Symbol, inputs: Sequence[Node]) -> HeldSymbol:
    """The input axis that holds a symbol most plainly. Raises Unsaid where no axis is linear in
    it.
    """
    found = list(_linear(symbol, inputs))
    if not found:
        raise Unsaid(f"no input has an axis of size {symbol.name}")
    return min(found, key=lambda at: abs(at.rest) + abs(at.factor - 1))


def _linear(symbol: Symbol, inputs: Sequence[Node]) -> Iterator[HeldSymbol]:
    for node in inputs:
        for axis, size in enumerate(node.shape):
            if isinstance(size, Sym) and symbols(size) == {symbol}:
                parts = dict(size.parts)
                factor, rest = parts.pop((symbol,), 0), parts.pop((), 0)
                if factor and not parts:
                    yield HeldSymbol(node, axis, factor, rest)


class SizeWriter(ABC, Generic[V]):
    """Writes sizes as integer arithmetic of the format, on values of type V."""

    @abstractmethod
    def number(self, value: int) -> V:
        """A constant."""

    @abstractmethod
    def symbol(self, symbol: Symbol) -> V:
        """The value of a symbol. Raises Unsaid."""

    @abstractmethod
    def added(self, x: V, y: V) -> V:
        """x + y."""

    @abstractmethod
    def multiplied(self, x: V, y: V) -> V:
        """x * y."""

    @abstractmethod
    def divided(self, x: V, by: int) -> V:
        """x / by, of numbers that are not negative."""

    def value(self, size: Dim) -> V:
        """A size. Raises Unsaid."""
        if not isinstance(size, Sym):
            return self.number(size)
        total: V | None = None
        for monomial, factor in size.parts:
            term = None if factor == 1 and monomial else self.number(factor)
            for atom in monomial:
                value = self.symbol(atom) if isinstance(atom, Symbol) else self._floored(atom)
                term = value if term is None else self.multiplied(term, value)
            assert term is not None
            total = term if total is None else self.added(total, term)
        assert total is not None
        return total

    def _floored(self, quotient: Quotient) -> V:
        """The quotient rounded down: formats round towards 0, so the dividend is moved above 0."""
        least, by = bounds(quotient.dividend)[0], quotient.divisor
        if by < 0 or least <= -UNBOUNDED:
            raise Unsaid(f"({quotient.dividend})//{by} of a dividend that may be negative")
        moves = max(0, -(least // by))
        value = self.divided(self.value(quotient.dividend + moves * by), by)
        return self.added(value, self.number(-moves)) if moves else value
