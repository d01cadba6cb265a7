"""Long sums keep their digits: every accumulation within the bound that docs/SPEC.md states, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from long_sums import LARGE, SMALL, Case, off

from xlac.compiler import compile as compile_model
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops.leaf import Param


def check(name: str, case: Case, target: str, **given: Any) -> None:
    node, feeds, exact, bound = case()
    params = [n for n in node.inputs if isinstance(n.op, Param)]
    run = compile_model(Model(Graph("sums", tuple(params), {"y": node}), {}), target=target, **given)
    found = run(**feeds)
    sizes = np.maximum(np.abs(exact), 1e-30)  # all terms are positive
    assert off(np.asarray(found), exact, sizes) <= bound, name


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_sums_keep_their_digits(name: str, target: str) -> None:
    check(name, SMALL[name], target)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SMALL)
def test_sums_keep_their_digits_in_c(name: str) -> None:
    check(name, SMALL[name], "c")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_sums_keep_their_digits_on_other_machines(name: str, cpu: str) -> None:
    check(name, SMALL[name], "cpu", cpu=cpu)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LARGE)
def test_very_long_sums_keep_their_digits(name: str) -> None:
    check(name, LARGE[name], "cpu")
