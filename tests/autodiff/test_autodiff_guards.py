"""Gradients where a guard takes the place of a formula: PyTorch's, and differentiable again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guard_cases import CASES, SECOND, Array

import xlac

FINE = {np.float32: 1e-6, np.float64: 1e-12}


def gradients(name: str, dtype: type, twice: bool = False) -> list[Array]:
    """The gradients of a case's sum by what has a gradient in it; twice: of their sum again."""
    case = CASES[name]
    arguments = [np.asarray(a, dtype) for a in case.arguments]
    which = tuple(range(len(case.gradients)))
    first = xlac.grad(lambda *xs: xlac.sum(case.function(*xs)), wrt=which)

    def again(*xs: Any) -> Any:
        return xlac.sum(first(*xs)[0])

    chosen = xlac.grad(again, wrt=which) if twice else first
    return [np.asarray(g) for g in xlac.jit(chosen, target="reference")(*arguments)]


@pytest.mark.parametrize("name", CASES)
def test_gradients_at_guards(name: str) -> None:
    for dtype, fine in FINE.items():
        for found, wanted in zip(gradients(name, dtype), CASES[name].gradients, strict=True):
            assert found.dtype == dtype
            np.testing.assert_allclose(found, np.asarray(wanted, dtype), fine, fine)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_at_guards(name: str) -> None:
    found = gradients(name, np.float64, twice=True)
    for second, first in zip(found, CASES[name].gradients, strict=True):
        rows = np.isfinite(first).all(-1)
        assert np.isfinite(second[rows]).all()
    if name in SECOND:
        np.testing.assert_allclose(found[0], SECOND[name], 1e-12, 1e-12)
