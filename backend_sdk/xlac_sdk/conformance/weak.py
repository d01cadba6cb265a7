"""Cases for weak arithmetic: that a target's own forms are as good as it states. Their exact forms
are in the cases of the primitives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from xlac_sdk.arithmetic import WeakArithmetic
from xlac_sdk.conformance.case import ConformanceCase, Tolerance
from xlac_sdk.conformance.primitives import case_of
from xlac_sdk.dtypes import Array
from xlac_sdk.kernel_ir import semantics
from xlac_sdk.kernel_ir.primitives import Primitive, operand_dtypes, result_dtype
from xlac_sdk.target import Target

GROUP = "stated arithmetic"


def cases(target: Target) -> Iterator[ConformanceCase]:
    """One case for each statement about a primitive that the target spells."""
    for stated in sorted(target.weak, key=repr):
        primitive, dtype = stated.primitive, stated.dtype
        if primitive is Primitive.CAST or primitive not in target.primitives:
            continue
        given = operand_dtypes(primitive, dtype)
        signature = (*given, result_dtype(primitive, given))
        case = case_of(primitive, [(signature, 1)], False)
        inputs = _allowed(case.inputs, stated)
        name = f"{primitive.value} of {dtype} as stated"
        yield replace(
            case,
            name=name,
            group=GROUP,
            inputs=inputs,
            tolerance=Tolerance(max(stated.ulp, case.tolerance.ulp)),
            unrepaired=True,
        )


def _allowed(inputs: Mapping[str, Array], stated: WeakArithmetic) -> dict[str, Array]:
    """The operands about which something is stated: others become ones."""
    arrays = list(inputs.values())
    fine = np.ones(arrays[0].shape, bool)
    with np.errstate(all="ignore"):
        result = np.asarray(semantics.evaluate(stated.primitive, tuple(arrays), stated.dtype))
    for array in (*arrays, result):
        if array.dtype.kind != "f":
            continue
        if not stated.nan:
            fine &= ~np.isnan(array)
        if stated.flushes:  # a result that is off may be subnormal where the true one is not
            least = np.finfo(array.dtype).tiny * (2 if array is result else 1)
            fine &= (array == 0) | ~(np.abs(array) < least)
    return {name: np.where(fine, array, np.ones_like(array)) for name, array in inputs.items()}
