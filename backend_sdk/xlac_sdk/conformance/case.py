"""A conformance case: a program, its inputs, and the tolerance of its outputs against the
interpreter's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The allowed difference: units in the last place, or an absolute error for results with
    cancellation. Default: none.
    """

    ulp: float = 0
    absolute: float = 0


EXACT = Tolerance()


@dataclass(frozen=True, slots=True, eq=False)
class ConformanceCase:
    """One program to run.

    `group` is its heading in the report: a primitive's name, "statements", "steps" or an operation.
    `expected` is computed by the interpreter if not given. `calls` is the number of runs, of which
    the last is compared, for programs that keep state.
    """

    name: str
    group: str
    program: Program
    inputs: Mapping[str, Array]
    tolerance: Tolerance = EXACT
    expected: Mapping[str, Array] = field(default_factory=dict)
    calls: int = 1
    unrepaired: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one output of a case: "passed", "failed", "unsupported" (refused by the
    backend), or "left out": the target lacks an element type.
    """

    group: str
    case: str
    status: str
    detail: str = ""


def without(target: Target, dtypes: Iterable[DType]) -> str:
    """The reason why a case with these element types is left out; "" if the target has them all.
    Those that the SDK stores as others (`Target.stores`) are not left out.
    """
    missing = sorted(d.value for d in {*dtypes} if not target.stores(d))
    return f"the target has no {' and no '.join(missing)}" if missing else ""


def difference(got: Array, want: Array, tolerance: Tolerance, inputs: Mapping[str, Array]) -> str:
    """The first wrong element, with the inputs at its index; "" if all are right."""
    got, want = got.reshape(-1), want.reshape(-1)
    wrong = ~agrees(got, want, tolerance)
    if not wrong.any():
        return ""
    at = int(np.argmax(wrong))
    given = ", ".join(
        f"{k}={v.reshape(-1)[at]!s}" for k, v in inputs.items() if v.size == want.size
    )
    place = f"index {at} ({given})" if given else f"index {at}"
    return (
        f"{int(wrong.sum())} of {want.size} wrong, first at {place}: {got[at]!s}, expected "
        f"{want[at]!s}"
    )


def agrees(got: Array, want: Array, tolerance: Tolerance) -> NDArray[np.bool_]:
    """Element-wise comparison; NaN equals NaN, and exact comparison distinguishes the signs of
    zero.
    """
    dtype = DType.of(want.dtype)
    if not dtype.is_float:
        return np.asarray(got == want)
    with np.errstate(all="ignore"):
        nan, expected_nan = np.isnan(got), np.isnan(want)
        distance = np.abs(_order(got, dtype) - _order(want, dtype))
        near = distance <= tolerance.ulp
        if tolerance.absolute:
            near |= np.abs(got.astype(np.float64) - want.astype(np.float64)) <= tolerance.absolute
    return np.where(nan | expected_nan, nan & expected_nan, near)


def _order(x: Array, dtype: DType) -> Array:
    """Maps floats to integers so that neighbours differ by 1, and -0 and +0 by 1; as long doubles,
    which hold them all.
    """
    bits = x.view(np.dtype(f"i{dtype.nbytes}")).astype(np.int64)
    low = -(1 << (dtype.bits - 1))
    return np.where(
        bits >= 0, bits.astype(np.longdouble), (np.int64(low) - bits).astype(np.longdouble) - 1
    )
