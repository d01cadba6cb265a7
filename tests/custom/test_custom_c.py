"""Hand-written kernels in C99 for the target c: permission, agreement, and the artefact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from custom_ops import GATED, SPEC, random, run, written

import xlac
from xlac.cli import status as main
from xlac.spec.load import load
from xlac_sdk.source import SourceError, UnsupportedError


def test_a_kernel_is_an_error_until_somebody_permits_it(tmp_path: Path) -> None:
    file = written(tmp_path, "c")
    with pytest.raises(SourceError, match=r"gated\.c.*code and would be run.*XL3032") as caught:
        run(file, "c")
    assert "--allow-kernels" in str(caught.value) and "own.yaml:11" in str(caught.value)
    for allowed in (True, False):
        got, want = run(file, "c", allow_kernels=allowed)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_kernel_is_what_runs(tmp_path: Path) -> None:
    """One that leaves its bound by a hair, where the bound is wide."""
    spec = SPEC.replace("    kernels", "    tolerance: 0.01\n    kernels")
    file = written(tmp_path, "c", GATED.replace("(float)slope", "(float)slope * 1.001f"), spec)
    got, want = run(file, "c", allow_kernels=True)
    np.testing.assert_allclose(got, want * np.float32(1.001), rtol=1e-5)
    got, want = run(file, "c", allow_kernels=False)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_kernel_that_is_wrong_is_an_error_with_the_first_difference(tmp_path: Path) -> None:
    file = written(tmp_path, "c", GATED.replace("b[j]", "b[0]"))
    with pytest.raises(SourceError, match=r"with random values y\[0, 1\] is .*XL3034"):
        run(file, "c", allow_kernels=True)


def test_special_values_are_compared(tmp_path: Path) -> None:
    """A kernel that turns NaN into 0, as a careless comparison does."""
    careless = GATED.replace("= a[i * N + j]", "= (a[i * N + j] > -1e30f ? a[i * N + j] : 0)")
    file = written(tmp_path, "c", careless)
    with pytest.raises(SourceError, match=r"with special values .*XL3034"):
        run(file, "c", allow_kernels=True)
    finite = SPEC.replace("    kernels", "    tolerance: {finite: true}\n    kernels")
    got, want = run(written(tmp_path, "c", careless, finite), "c", allow_kernels=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_wrong_signature_is_the_compilers_error_at_its_line(tmp_path: Path) -> None:
    file = written(tmp_path, "c", GATED.replace("double slope", "float slope"))
    with pytest.raises(UnsupportedError, match=r"(?s)gated\.c:2.*XL5023"):
        run(file, "c", allow_kernels=True)


def test_the_artefact_has_the_text(tmp_path: Path) -> None:
    file, out = written(tmp_path, "c"), tmp_path / "out"
    assert main(["build", str(file), "--target", "c", "-o", str(out)]) != 0
    assert main(["build", str(file), "--target", "c", "--allow-kernels", "-o", str(out)]) == 0
    text = (out / "own.c").read_text()
    assert '#line 1 "gated.c"' in text and "y[i * N + j] = a[i * N + j]" in text
    x, w = random(4, 6), random(6, seed=1)
    np.testing.assert_allclose(xlac.load(out)(x=x, w=w), (x + 1) * w * 6, rtol=1e-5)


def test_explain_says_what_is_a_wall_and_what_has_no_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, "c")
    assert main(["explain", str(file), "--target", "c", "--allow-kernels"]) == 0
    told = capsys.readouterr().out
    assert "hand-written in gated.c: nothing is fused into it" in told
    assert "a hand-written kernel takes its operands from memory" in told
    for target, why in (("c", "gated.c is not permitted"), ("reference", "for reference")):
        assert main(["explain", str(file), "--target", target, "--no-kernels"]) == 0
        assert why in capsys.readouterr().out


SCRATCH = """\
#include <stdint.h>
#include <string.h>
void gated(const float *a, float *y, float *z, int64_t N, int64_t M, int64_t k, void *scratch)
{
    float *sums = scratch;
    for (int64_t j = 0; j < M; ++j) sums[j] = 0;
    for (int64_t i = 0; i < N; ++i)
        for (int64_t j = 0; j < M; ++j) sums[j] += a[i * M + j];
    memcpy(z, sums, (size_t)M * sizeof(float));
    for (int64_t i = 0; i < N; ++i)
        for (int64_t j = 0; j < M; ++j) y[i * M + j] = a[i * M + j] * (float)k - sums[j];
}
"""
SCRATCHED = """\
xlac: 1
model: own
dims: {rows: {min: 1, max: 64, opt: 8}}
inputs: {x: "f32[rows, 6]"}
ops:
  gated:
    inputs: {a: "f32[N, M]"}
    outputs: {y: "f32[N, M]", z: "f32[M]"}
    params: {k: 3}
    expr: {z: "sum(a, axis=0)", y: "a * $k - z"}
    tolerance: {relative: 1e-5, absolute: 1e-4, finite: true}
    kernels: {c: {file: gated.c, scratch: "${4 * M}"}}
graph: {"y, z": "gated(x)", s: z * 2}
outputs: [y, s]
"""


def test_scratch_several_results_and_open_sizes(tmp_path: Path) -> None:
    file = written(tmp_path, "c", SCRATCH, SCRATCHED)
    for sizes in ("specialize", "symbolic"):
        model = xlac.compile(file, "c", sizes=sizes, allow_kernels=True)
        for rows in (1, 5):
            x = random(rows, 6)
            found = model(x=x)
            total = x.sum(axis=0)
            np.testing.assert_allclose(found["y"], x * 3 - total, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(found["s"], total * 2, rtol=1e-4, atol=1e-4)


VARIANTS = """\
xlac: 1
model: own
inputs: {x: "f32[6]", d: "f64[6]"}
ops:
  gated:
    inputs: {a: "$T[N]"}
    outputs: {y: "$T[N]"}
    params: {T: f32}
    expr: {y: a * a}
    kernels: {c: gated.c}
graph: {y: gated(x), z: "gated(d, T='f64')"}
outputs: [y, z]
"""


def test_element_types_are_variants(tmp_path: Path) -> None:
    kernel = """\
    #include <stdint.h>
    void gated(const T *a, T *y, int64_t N) { while (N-- > 0) y[N] = a[N] * a[N]; }
    """
    file = written(tmp_path, "c", kernel, VARIANTS)
    x, d = random(6), random(6, seed=1).astype(np.float64)
    found = xlac.compile(file, "c", allow_kernels=True)(x=x, d=d)
    np.testing.assert_array_equal(found["y"], x * x)
    np.testing.assert_array_equal(found["z"], d * d)


def test_who_edits_a_kernel_compiles_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    spec = SPEC.replace("    kernels", "    tolerance: 0.1\n    kernels")
    for factor in ("1.0f", "1.001f", "1.002f"):
        kernel = GATED.replace("(float)slope", f"(float)slope * {factor}")
        got, want = run(written(tmp_path, "c", kernel, spec), "c", allow_kernels=True)
        np.testing.assert_allclose(got, want * np.float32(factor[:-1]), rtol=1e-5)


def test_the_graph_has_the_operation(tmp_path: Path) -> None:
    model = load(written(tmp_path, "c"))
    (own,) = [n for n in model.graph.nodes() if n.op.mnemonic == "custom_op"]
    assert own.name == "y" and model.kernels["gated"]["c"].name == "gated.c"
