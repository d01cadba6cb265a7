"""Polynomials whose coefficients are looked up by the argument, where the target has an instruction
for that (`lookup`): fewer terms than one polynomial for all arguments takes, and no division.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import ENTRIES
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math.parts import Pair
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

QUARTERS = 4  # pieces of an interval from one power of two to the next


@dataclass(frozen=True, slots=True)
class PiecewisePolynomial:
    """A function of f32 from 0 on, as polynomials in the distance from the centre of a piece.

    Pieces are quarters of the intervals between powers of two of u = scale a + offset, which is at
    least 1 and less than 16, so they grow with a. The centre of the first is 0, where the function
    is 0, and so is its first coefficient; others are chosen so that the first coefficient is nearly
    representable. `coefficients` has a row for each power, with an entry for each piece.
    """

    centres: tuple[float, ...]
    coefficients: tuple[tuple[float, ...], ...]
    scale: float = 1.0
    offset: float = 1.0

    def __call__(self, m: Writer, a: Value) -> Value:
        """The function of a."""
        return m.fma(*self._terms(m, a))

    def with_error(self, m: Writer, a: Value) -> Pair:
        """The function of a, and what the last addition lost."""
        rest, t, first = self._terms(m, a)
        total = m.fma(rest, t, first)
        return total, m.fma(rest, t, first - total)

    def _terms(self, m: Writer, a: Value) -> tuple[Value, Value, Value]:
        """The factors of the terms that grow with the distance from the centre, and the first."""
        u = a + self.offset if self.scale == 1.0 else m.fma(a, self.scale, self.offset)
        index = u.bits >> (a.format.mantissa - QUARTERS.bit_length() + 1)
        t = a - _at(m, self.centres, index, a)
        first, *others = (_at(m, row, index, a) for row in self.coefficients)
        rest = others.pop()
        while others:
            rest = m.fma(rest, t, others.pop())
        return rest, t, first


def is_taken(m: Writer, x: Value) -> bool:
    """Whether the target looks up coefficients, and fuses products with sums."""
    return x.dtype is DType.F32 and m.spells(P.LOOKUP, (x,)) and m.fused(x.dtype)


def _at(m: Writer, entries: tuple[float, ...], index: Value, a: Value) -> Value:
    """The entries for pieces; the piece that begins at 1 has the exponent's bias as its index."""
    first = a.format.bias * QUARTERS % ENTRIES
    return m.lookup([entries[(n - first) % ENTRIES] for n in range(ENTRIES)], index, a)
