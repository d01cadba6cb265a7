"""The difference between a result and its exact value, in ulp, relative and absolute, with its
bound.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xlac.debug.errors.approximation import Approximation, ulp
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """The comparison of an array: `wrong` of its `elements` are beyond the bound. The errors are
    the largest of all elements; `place`, `result`, `meant` and `bound` are those of the worst
    element relative to its bound.
    """

    elements: int
    wrong: int
    ulp: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0
    place: tuple[int, ...] = ()
    result: float | str = 0.0
    meant: float = 0.0
    bound: float = 0.0
    unsettled: int = 0  # elements without a finite bound, for which any value is accepted

    @property
    def right(self) -> bool:
        """Whether every element is within its bound."""
        return not self.wrong

    @property
    def share(self) -> float:
        """The error of the worst element, divided by its bound."""
        if not self.wrong and not 0 < self.bound < np.inf:
            return 0.0
        if not self.bound or isinstance(self.result, str):
            return float("inf")
        share = abs(self.result - self.meant) / self.bound
        return (0.0 if self.right else float("inf")) if np.isnan(share) else share

    def __str__(self) -> str:
        if self.elements and isinstance(self.result, str):
            return self.result
        errors = (
            f"{self.ulp:.3g} ulp, relative {self.relative:.3g}, absolute {self.absolute:.3g}; "
            f"bound {self.bound:.3g}"
        )
        if self.right:
            return errors
        at = f"[{', '.join(map(str, self.place))}]"
        return (
            f"{self.wrong} of {self.elements} elements beyond the bound, most at {at}: "
            f"{self.result:.9g}, meant {self.meant:.9g}, off by "
            f"{abs(float(self.result) - self.meant):.3g} of {self.bound:.3g}"
        )

    def json(self) -> dict[str, Any]:
        """The comparison for JSON, with infinities and NaN as text."""
        return {k: _plain(v) for k, v in asdict(self).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


def deviation(result: Array, meant: Approximation, dtype: DType) -> Discrepancy:
    """Compares a result of the given dtype with its exact value and error bound."""
    wanted = meant.value
    if result.shape != wanted.shape or result.dtype != dtype.numpy:
        text = f"{result.dtype}{list(result.shape)}, meant {dtype.value}{list(wanted.shape)}"
        return Discrepancy(max(result.size, 1), max(result.size, 1), result=text)
    if not result.size:
        return Discrepancy(0, 0)
    bound = meant.bound
    with np.errstate(all="ignore"):
        a, b = result.astype(np.float64), wanted.astype(np.float64)
        same = (result == wanted) if not dtype.is_float else (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        if not dtype.is_float:
            apart = np.where(same, 0.0, np.maximum(apart, 1.0))  # may be 0 beyond 2^53
        free = np.isinf(bound)
        beyond = ~same & ~free & ~(apart <= bound)
        share = np.where(free, -1.0, np.where(bound > 0, apart / bound, np.where(same, 0, np.inf)))
        units = ulp(b, dtype) if dtype.is_float else np.ones(b.shape)
        ulps = np.where(free, 0.0, apart / units)
        relative = np.where(~free & (b != 0) & np.isfinite(b), apart / np.abs(b), 0.0)
    worst = int(np.argmax(np.where(beyond, np.inf, share)))
    at = tuple(int(i) for i in np.unravel_index(worst, result.shape))
    return Discrepancy(
        result.size,
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
