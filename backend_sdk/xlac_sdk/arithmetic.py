"""Arithmetic that a target weakens: what it states of each primitive whose native form is less than
kernel IR means, and what the SDK can make of that.

A primitive that no statement is about is exact, or within `PROMISED` units in the last place, with
subnormal numbers and NaN as IEEE 754 has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL, Primitive

P = Primitive
PROMISED: Mapping[Primitive, float] = dict.fromkeys(TRANSCENDENTAL, 3.0) | {
    P.GELU: 5.0,
    P.SQRT: 1.0,
    P.FMA: 2.0,
    P.REM: 0.0,
    P.DIV: 0.0,
}
"""Units in the last place that results may be off from the correctly rounded one (gelu of doubles
from a reference that is itself off by up to 3); everything else is exact.
"""
REPAIRABLE_ULP = 6.0  # of a quotient, from which the SDK makes the correctly rounded one


@dataclass(frozen=True, slots=True)
class WeakArithmetic:
    """What a target states of its native form of a primitive on a float type.

    `ulp` is the most units in the last place that a result is off. With `flushes`, a subnormal
    operand may count as a zero of its sign, and a subnormal result may be one. Without `nan` the
    operands must not be NaN: the result may then be anything. Raises ValueError for a statement
    about another type, or one that says nothing.
    """

    primitive: Primitive
    dtype: DType
    ulp: float = 0.0
    flushes: bool = False
    nan: bool = True

    def __post_init__(self) -> None:
        if not self.dtype.is_float or self.dtype.is_half:
            raise ValueError(f"arithmetic is done in f32 and f64, not {self.dtype}")
        if self.nan and not self.flushes and self.ulp <= 0:
            raise ValueError(f"{self.primitive.value} of {self.dtype}: nothing is weak")

    @property
    def serves(self) -> bool:
        """Whether the native form is what kernel IR promises all the same."""
        return self.nan and not self.flushes and self.ulp <= PROMISED.get(self.primitive, 0.0)

    @property
    def flushes_only(self) -> bool:
        """Whether `precision: fast` may use it: only subnormal numbers are lost."""
        return self.nan and self.flushes and self.ulp <= PROMISED.get(self.primitive, 0.0)

    def to_json(self) -> dict[str, Any]:
        """The statement as JSON, the inverse of `from_json`."""
        return {**asdict(self), "primitive": self.primitive.value, "dtype": self.dtype.value}

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> WeakArithmetic:
        """The inverse of `to_json`; raises KeyError, TypeError or ValueError for anything else."""
        kinds = {"primitive": Primitive(facts["primitive"]), "dtype": DType(facts["dtype"])}
        return WeakArithmetic(**{**facts, **kinds})


def weak(
    primitives: Iterable[Primitive], dtypes: Iterable[DType] = (DType.F32,), **stated: Any
) -> frozenset[WeakArithmetic]:
    """One statement about several primitives on several types: `weak((P.DIV,), ulp=2.5)`."""
    kinds = tuple(dtypes)
    return frozenset(WeakArithmetic(p, d, **stated) for p in primitives for d in kinds)
