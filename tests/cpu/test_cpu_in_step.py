"""Long vectors whose registers are kept in step: where that is, and that no number changes."""

from __future__ import annotations

import numpy as np
import pytest

import xlac
from xlac.driver import lower
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_cpu.emit import in_step
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

MACHINES = {
    "avx512": (Request(cpu="x86-64-v4"), False),
    "avx2": (Request(cpu="x86-64-v3"), True),
    "sse": (Request(cpu="x86-64-v2"), True),
    "i686": (Request(cpu="pentium4", triple="i686-unknown-linux-gnu"), False),
    "neon": (Request(cpu="cortex-a76", triple="aarch64-unknown-linux-gnu"), False),
}
DTYPES = [DType.F16, DType.F32, DType.F64]


def model(name: str, dtype: DType, *shape: int) -> Model:
    """A function of an array."""
    x = Node.of(Param("x", Type(dtype, shape), "input"))
    return Model(Graph("g", (x,), {"y": build.apply1(name, x)}), {})


def source(name: str, dtype: DType, request: Request) -> str:
    """Its LLVM text."""
    backend = find("cpu")
    target = backend.target(request)
    return "\n".join(backend.emit(lower(model(name, dtype, 4096), target).program, target).values())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_machines_with_few_registers_keep_long_chains_in_step(machine: str, dtype: DType) -> None:
    request, expected = MACHINES[machine]
    text = source("gelu", dtype, request)
    assert ("sideeffect" in text) == expected
    assert "sideeffect" not in source("relu", dtype, request)


@pytest.mark.parametrize("cpu", ["", "x86-64-v2"])
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("name", ["gelu", "tanh", "erf", "sin", "log", "softmax"])
def test_no_number_changes(
    name: str, dtype: DType, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths with whole long vectors, single registers and single elements."""
    monkeypatch.setenv("XLAC_CACHE", "off")
    x = (np.random.default_rng(0).standard_normal((3, 333)) * 4).astype(dtype.numpy)
    x.flat[::9] = np.resize([np.nan, np.inf, -np.inf, -0.0, 1e-40], len(x.flat[::9]))
    results = []
    for every in (in_step.EVERY, 1, 1 << 30):
        monkeypatch.setattr(in_step, "EVERY", every)
        run = xlac.compile(model(name, dtype, 3, 333), target="cpu", cpu=cpu)
        results.append(np.asarray(run(x)))
    for other in results[:-1]:
        np.testing.assert_array_equal(other, results[-1])
