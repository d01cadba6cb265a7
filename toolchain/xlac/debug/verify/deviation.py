"""How far a result is from its meaning in ulp, relative and absolute, beside its bound."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xlac.debug.errors.approximation import Approximation, ulp
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Of an array: `wrong` of its `elements` are beyond the bound. The errors are the largest of
    all elements; `place`, `found`, `meant` and `bound` are those of the element that is furthest
    beyond its bound, or nearest to it.
    """

    elements: int
    wrong: int
    ulp: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0
    place: tuple[int, ...] = ()
    found: float | str = 0.0
    meant: float = 0.0
    bound: float = 0.0
    unsettled: int = 0  # elements that may be anything: no bound holds for them

    @property
    def right(self) -> bool:
        """Whether every element is within its bound."""
        return not self.wrong

    @property
    def share(self) -> float:
        """The error of the element that is named, as a part of its bound."""
        if not self.wrong and not 0 < self.bound < np.inf:
            return 0.0
        if not self.bound or isinstance(self.found, str):
            return float("inf")
        share = abs(self.found - self.meant) / self.bound
        return (0.0 if self.right else float("inf")) if np.isnan(share) else share

    def __str__(self) -> str:
        if self.elements and isinstance(self.found, str):
            return self.found
        errors = (
            f"{self.ulp:.3g} ulp, relative {self.relative:.3g}, absolute {self.absolute:.3g}; "
            f"bound {self.bound:.3g}"
        )
        if self.right:
            return errors
        at = f"[{', '.join(map(str, self.place))}]"
        return (
            f"{self.wrong} of {self.elements} elements beyond the bound, most at {at}: "
            f"{self.found:.9g}, meant {self.meant:.9g}, off by "
            f"{abs(float(self.found) - self.meant):.3g} of {self.bound:.3g}"
        )

    def json(self) -> dict[str, Any]:
        """The same for JSON, in which infinities and NaN are text."""
        return {k: _plain(v) for k, v in asdict(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def deviation(found: Array, meant: Approximation, dtype: DType) -> Discrepancy:
    """Compares a result of a type with its meaning and the bound of its error."""
    wanted = meant.value
    if found.shape != wanted.shape or found.dtype != dtype.numpy:
        text = f"{found.dtype}{list(found.shape)}, meant {dtype.value}{list(wanted.shape)}"
        return Discrepancy(max(found.size, 1), max(found.size, 1), found=text)
    if not found.size:
        return Discrepancy(0, 0)
    bound = meant.bound
    with np.errstate(all="ignore"):
        a, b = found.astype(np.float64), wanted.astype(np.float64)
        same = (found == wanted) if not dtype.is_float else (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        free = np.isinf(bound)
        beyond = ~same & ~free & ~(apart <= bound)
        share = np.where(free, -1.0, np.where(bound > 0, apart / bound, np.where(same, 0, np.inf)))
        units = ulp(b, dtype) if dtype.is_float else np.ones(b.shape)
        ulps = np.where(free, 0.0, apart / units)
        relative = np.where(~free & (b != 0) & np.isfinite(b), apart / np.abs(b), 0.0)
    worst = int(np.argmax(np.where(beyond, np.inf, share)))
    at = tuple(int(i) for i in np.unravel_index(worst, found.shape))
    return Discrepancy(
        found.size,
        int(beyond.sum()),
        float(ulps.max()),
        float(relative.max()),
        float(np.where(free, 0.0, apart).max()),
        at,
        float(a[at]),
        float(b[at]),
        float(bound[at]),
        int((free & ~same).sum()),
    )
