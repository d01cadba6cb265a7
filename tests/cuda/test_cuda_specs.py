"""Shipped specs on the GPU, beside float64: small ones on the stand-in, with --gpu all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_harness import OnStandin

from xlac.driver import executable, lower, specialized
from xlac.frontends.loader import load
from xlac.ir.interpret import interpret
from xlac_cuda.backend import CudaBackend
from xlac_sdk.target import Request

SPECS = Path(__file__).parents[2] / "specs"
SMALL = {"mlp_small": 1e-5, "bias_relu_softmax": 1e-5, "branch_cond": 1e-5}  # of the norm
LARGE = {
    "softmax": 1e-6,
    "layernorm_gelu": 1e-5,
    "bert_layer": 1e-4,
    "lstm_3x60": 1e-4,
    "elementwise_chain": 1e-5,
    "mul_add_reduce": 1e-4,
}


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
@pytest.mark.sampled(8)
def test_a_spec_beside_float64(name: str, backend: CudaBackend) -> None:
    if name in LARGE and isinstance(backend, OnStandin):
        pytest.skip("too large for a CPU: make test-gpu")
    model = specialized(load(SPECS / f"{name}.yaml"))
    rng = np.random.default_rng(3)
    inputs = {n.op.name: _drawn(rng, n.type.shape, n.type.dtype.numpy) for n in model.inputs}  # type: ignore[attr-defined]
    want = interpret(model.graph, inputs, model.weights, float64=True)
    made = executable(lower(model, backend.target(Request())), backend)
    found = made(**inputs)
    results = found if isinstance(found, dict) else {made.outputs[0]: found}
    for output, exact in want.items():
        error = np.linalg.norm(np.asarray(results[output], np.float64) - exact)
        assert error <= (SMALL | LARGE)[name] * np.linalg.norm(exact), f"{output}: {error}"
    made.executable.close()  # type: ignore[attr-defined]


def _drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:  # type: ignore[type-arg]
    return (
        rng.standard_normal(shape).astype(dtype)
        if dtype.kind == "f"
        else rng.integers(0, 3, shape).astype(dtype)
    )
