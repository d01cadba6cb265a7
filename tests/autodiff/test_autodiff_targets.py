"""Derivatives of every sample of an operation and of every form of control, in the types that they
have, as targets compile them: `make test-gradients` runs all, `make test` a few.
"""

from __future__ import annotations

from math import prod

import pytest
from compiled_derivatives import Case, check, of_control, of_sample
from control_cases import Forms
from sampling import Some
from test_autodiff_ops import NAMES

from xlac.ir.op import OPS, UNDEFINED
from xlac_sdk.dtypes import DType

LARGEST = {"cpu": 3000, "c": 3000, "reference": 200}  # elements of a sample: the last interprets
EACH = 8  # operations that are one program
BATCHES = [NAMES[n : n + EACH] for n in range(0, len(NAMES), EACH)]


def of_operation(name: str, largest: int) -> list[Case]:
    """The samples of an operation that have derivatives."""
    if UNDEFINED in OPS[name].derivatives:
        return []
    found = []
    for number, sample in enumerate(OPS[name].samples()):
        size = sum(prod(t.shape) for t in sample.inputs)  # type: ignore[type-var]
        floats = any(t.dtype.is_float for t in sample.inputs)
        if floats and size <= largest and "special" not in sample.draw:
            try:
                found.append(of_sample(name, number, sample))
            except ValueError:  # it takes no f64
                continue
    return [case for case in found if case.own.values]


@pytest.mark.sampled(40)
@pytest.mark.parametrize("batch", range(len(BATCHES)))
@pytest.mark.parametrize("target", LARGEST)
def test_operations(target: str, batch: int, some: Some) -> None:
    cases = [c for name in BATCHES[batch] for c in some(of_operation(name, LARGEST[target]), 8)]
    wrong = list(check(cases, target)) if cases else []
    assert not wrong, "\n".join(wrong)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.BF16, DType.F16], ids=str)
@pytest.mark.parametrize("target", LARGEST)
def test_control(target: str, dtype: DType, some: Some) -> None:
    wide, own = dict(Forms(DType.F64).every()), dict(Forms(dtype).every())
    cases = [of_control(name, own[name], wide[name]) for name in some(list(own), 8)]
    wrong = list(check([c for c in cases if c.own.wrt], target))
    assert not wrong, "\n".join(wrong)
