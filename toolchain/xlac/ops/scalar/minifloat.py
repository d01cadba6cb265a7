"""Floats of 8 bits and fewer: how their codes, stored as u8, become numbers and how numbers become
codes.

The formats are those of OCP's 8-bit and microscaling specifications, of the FNUZ paper (arXiv
2206.02915) and of IEEE 754's pattern; the names are StableHLO's and NumPy's (`ml_dtypes`) without
the underscores.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xlac.ir.op import Array, ShapeError


@dataclass(frozen=True)
class Minifloat:
    """A format: a sign (if `signed`), an exponent with a bias, a mantissa, and what its largest
    codes mean.

    `ending` says it: "ieee" has infinities and NaNs, "fn" has a NaN in the last code, "finite" has
    neither, and "fnuz" has one NaN, in the place of -0, and no other zero than +0.
    """

    exponent: int
    mantissa: int
    bias: int
    ending: str
    signed: bool = True

    @property
    def sign(self) -> int:
        """The sign's bit; for a format without sign the number of its codes."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def largest(self) -> int:
        """The code of the largest number."""
        if self.ending == "ieee":
            return self.infinity - 1
        return self.sign - (2 if self.ending == "fn" else 1)

    @property
    def infinity(self) -> int:
        """The code of infinity where there is one."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def nan(self) -> int:
        """The code that NaN becomes; -0 where there is no NaN."""
        return {"ieee": self.infinity | 1 << max(0, self.mantissa - 1), "fn": self.sign - 1}.get(
            self.ending, self.sign
        )

    @property
    def overflow(self) -> int:
        """The code of what is too large, when it is not held at the largest number."""
        return {"ieee": self.infinity, "finite": self.largest}.get(self.ending, self.nan)

    @property
    def least(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias if self.signed else -self.bias

    @cached_property
    def values(self) -> Array:
        """The number of every code, as float64."""
        codes = np.arange(2 * self.sign if self.signed else self.sign)
        field, fraction = (
            (codes % self.sign) >> self.mantissa,
            (codes & ((1 << self.mantissa) - 1)) / (1 << self.mantissa),
        )
        normal = (field > 0) | (not self.signed)
        magnitudes = np.ldexp(fraction + normal, np.where(normal, field, 1) - self.bias)
        magnitudes[(codes % self.sign) > self.largest] = np.nan
        if self.ending == "ieee":
            magnitudes[codes % self.sign == self.infinity] = np.inf
        signed: Array = np.where(codes >= self.sign, -magnitudes, magnitudes)
        if self.ending == "fnuz":
            signed[self.sign] = np.nan
        return signed


FORMATS = {
    "f8e4m3fn": Minifloat(4, 3, 7, "fn"), "f8e4m3": Minifloat(4, 3, 7, "ieee"),
    "f8e5m2": Minifloat(5, 2, 15, "ieee"), "f8e3m4": Minifloat(3, 4, 3, "ieee"),
    "f8e4m3fnuz": Minifloat(4, 3, 8, "fnuz"), "f8e5m2fnuz": Minifloat(5, 2, 16, "fnuz"),
    "f8e4m3b11fnuz": Minifloat(4, 3, 11, "fnuz"),
    "f8e8m0fnu": Minifloat(8, 0, 127, "fn", signed=False), "f4e2m1fn": Minifloat(2, 1, 1, "finite"),
    "f6e2m3fn": Minifloat(2, 3, 1, "finite"), "f6e3m2fn": Minifloat(3, 2, 3, "finite"),
}  # fmt: skip


ROUNDINGS = ("nearest", "up", "down")


def known(mnemonic: str, format: str) -> Minifloat:
    """A format by its name. Raises ShapeError."""
    if format not in FORMATS:
        raise ShapeError(
            f"{mnemonic} does not know the format {format!r}; there are {', '.join(FORMATS)}",
            attribute="format",
        )
    return FORMATS[format]
