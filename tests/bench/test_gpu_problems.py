"""The GPU benchmark's workloads: what xlac computes from each spec is what the float64 reference
says.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import xlac

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "gpu"


@pytest.fixture(scope="module")
def problems():
    sys.path.insert(0, str(FOLDER))
    try:
        import problems

        yield problems
    finally:
        sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("family", ["memory", "matmul", "attention"])
@pytest.mark.sampled(6)
def test_every_spec_means_its_reference(problems, family, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    types = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    workloads = list(problems.all_of(True, frozenset({family})))
    assert workloads
    for one in workloads:
        file = tmp_path / f"{one.name}.yaml"
        file.write_text(one.spec)
        arrays = one.arrays()
        given = [arrays[name].astype(types[dtype]) for name, (_, dtype, _) in one.operands.items()]
        got = np.asarray(xlac.compile(file)(*given)).astype(np.float64)
        wanted = np.asarray(one.reference(*(a.astype(np.float64) for a in arrays.values())))
        assert got.shape == wanted.shape
        distance = np.linalg.norm((got - wanted).ravel()) / np.linalg.norm(wanted)
        assert distance <= one.tolerance, one.name


def test_rounding_to_a_half_type_is_what_the_type_holds(problems):
    import workload

    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).standard_normal(10_000).astype(np.float32)
    np.testing.assert_array_equal(
        workload.rounded(values, "bf16"), values.astype(ml_dtypes.bfloat16).astype(np.float32)
    )
    np.testing.assert_array_equal(
        workload.rounded(values, "f16"), values.astype(np.float16).astype(np.float32)
    )


def test_full_sizes_run_past_the_caches(problems):
    memory = list(problems.all_of(False, frozenset({"memory"})))
    assert all(w.least_bytes > 120e6 for w in memory)  # twice the L2 of an H200
    assert {w.name for w in problems.all_of(False, frozenset({"matmul"}))} >= {
        "matmul_bf16_8192",
        "matmul_bf16_gelu_8192",
    }
