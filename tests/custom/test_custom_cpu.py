"""Hand-written kernels for the target cpu: C99 by the system's compiler, and LLVM IR."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from custom_ops import GATED, SPEC, random, run, written

import xlac
from xlac.cli import status
from xlac_sdk.source import SourceError, UnsupportedError

GATED_LL = """\
define void @gated(ptr %a, ptr %b, ptr %y, i64 %S, i64 %N, double %slope) {
entry:
  %k = fptrunc double %slope to float
  %count = mul i64 %S, %N
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %j = urem i64 %i, %N
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %j
  %py = getelementptr float, ptr %y, i64 %i
  %va = load float, ptr %pa
  %vb = load float, ptr %pb
  %m = fmul float %va, %vb
  %r = fmul float %m, %k
  store float %r, ptr %py
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""
LL = SPEC.replace("gated.c", "gated.ll")


def in_ir(folder: Path, text: str = GATED_LL) -> Path:
    (folder / "gated.ll").write_text(text)
    return written(folder, "cpu", GATED, LL)


@pytest.mark.parametrize("language", ["c", "ll"])
def test_a_kernel_runs_and_is_shipped(tmp_path: Path, language: str) -> None:
    file = written(tmp_path, "cpu") if language == "c" else in_ir(tmp_path)
    got, want = run(file, "cpu", allow_kernels=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    out = tmp_path / "out"
    command = ["build", str(file), "--allow-kernels", "-o", str(out), "--emit", "so,a,o,h"]
    assert status(command) == 0
    x, w = random(4, 6), random(6, seed=1)
    np.testing.assert_allclose(xlac.load(out)(x=x, w=w), (x + 1) * w * 6, rtol=1e-5)


@pytest.mark.parametrize("language", ["c", "ll"])
def test_a_kernel_that_is_wrong_is_found(tmp_path: Path, language: str) -> None:
    if language == "c":
        file = written(tmp_path, "cpu", GATED.replace("b[j]", "b[0]"))
    else:
        file = in_ir(
            tmp_path,
            GATED_LL.replace(
                "%pb = getelementptr float, ptr %b, i64 %j", "%pb = bitcast ptr %b to ptr"
            ),
        )
    with pytest.raises(SourceError, match=r"y\[0, 1\] is .*XL3034"):
        run(file, "cpu", allow_kernels=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("define void @gated(", "LLVM refuses gated.ll"),
        (GATED_LL.replace("i64 [0, %entry]", "i64 [0, %out]"), "LLVM refuses gated.ll"),
        (GATED_LL.replace("@gated", "@other"), "defines no function @gated"),
        (
            GATED_LL.replace("double %slope)", "float %slope)").replace(
                "fptrunc double %slope to float", "fadd float %slope, 0.0"
            ),
            "is called as void",
        ),
        ("declare void @gated(ptr, ptr, ptr, i64, i64, double)\n", "defines no function"),
    ],
)
def test_ir_that_cannot_be_taken(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=r"XL5113") as caught:
        run(in_ir(tmp_path, text), "cpu", allow_kernels=True)
    assert says in str(caught.value)


def test_c_that_cannot_be_taken(tmp_path: Path) -> None:
    for text in (GATED.replace("double slope", "float slope"), "nonsense"):
        with pytest.raises(UnsupportedError, match=r"(?s)gated\.c:\d.*XL5113"):
            run(written(tmp_path, "cpu", text), "cpu", allow_kernels=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "defines no function gated"),
        (f"#undef gated\n{GATED}", "defines no function gated"),
        (
            GATED.replace("{\n", "{\n    extern void nowhere(void); nowhere();\n", 1),
            "calls nowhere",
        ),
    ],
)
def test_c_whose_functions_are_missing(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{says}.*XL5113"):
        run(written(tmp_path, "cpu", text), "cpu", allow_kernels=True)


def test_ir_whose_functions_are_missing(tmp_path: Path) -> None:
    text = GATED_LL.replace("entry:", "entry:\n  call void @nowhere()", 1)
    with pytest.raises(UnsupportedError, match="XL5113"):
        run(in_ir(tmp_path, f"declare void @nowhere()\n{text}"), "cpu", allow_kernels=True)


def test_without_a_compiler_one_line_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XLAC_CACHE", "off")
    spec = SPEC.replace("model: own", "model: alone")
    file = written(tmp_path, "cpu", f"/* alone */{GATED}", spec)
    with pytest.raises(UnsupportedError, match=r"needs a C compiler.*XL5004") as caught:
        run(file, "cpu", allow_kernels=True)
    assert "install one" in str(caught.value) and "--no-kernels" in str(caught.value)


def test_another_machines_kernel_is_not_compared_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = in_ir(tmp_path, f"; afar\n{GATED_LL}")
    command = ["build", str(file), "--allow-kernels", "-o", str(tmp_path / "out"), "--emit", "o"]
    assert status([*command, "--triple", "riscv64-unknown-linux-gnu"]) == 0
    told = capsys.readouterr()
    assert "'gated' (gated.ll) was not compared with its meaning" in told.err


def test_forms_of_text_have_no_c(tmp_path: Path) -> None:
    file = written(tmp_path, "cpu")
    command = ["build", str(file), "--allow-kernels", "-o", str(tmp_path / "out")]
    for form in ("ll", "s"):
        assert status([*command, "--emit", form]) != 0
    assert status([*command, "--emit", "ll", "--no-kernels"]) == 0


SPLIT = """\
#include <stdint.h>
#include <math.h>
void gated(const float *a, const float *b, float *y, int64_t S, int64_t N, double slope,
           int64_t begin, int64_t end)
{
    (void)S;
    for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < N; ++j) y[i * N + j] = expf(a[i * N + j]) * b[j] * (float)slope;
}
"""


@pytest.mark.parametrize("sizes", ["specialize", "symbolic"])
def test_threads_share_a_split_kernel(tmp_path: Path, sizes: str) -> None:
    """Work enough for four threads; the kernel calls the C library's functions too."""
    spec = SPEC.replace("kernels: {TARGET: gated.c}", "kernels: {cpu: {file: gated.c, split: S}}")
    spec = spec.replace("a * b", "exp(a) * b").replace('"f32[4, 6]"', '"f32[rows, 6]"')
    spec = spec.replace("inputs: {x", "dims: {rows: {min: 1, max: 50001, opt: 50001}}\ninputs: {x")
    file = written(tmp_path, "cpu", SPLIT, spec)
    model = xlac.compile(file, "cpu", threads=4, sizes=sizes, allow_kernels=True)
    for rows in (1, 7, 50001):
        x, w = random(rows, 6), random(6, seed=1)
        np.testing.assert_allclose(model(x=x, w=w), np.exp(x + 1) * w * 6, rtol=2e-5)


def test_a_library_with_the_c_librarys_functions(tmp_path: Path) -> None:
    spec = SPEC.replace("kernels: {TARGET: gated.c}", "kernels: {cpu: {file: gated.c, split: S}}")
    file = written(tmp_path, "cpu", SPLIT, spec.replace("a * b", "exp(a) * b"))
    out = tmp_path / "out"
    assert status(["build", str(file), "--allow-kernels", "-o", str(out)]) == 0
    x, w = random(4, 6), random(6, seed=1)
    np.testing.assert_allclose(xlac.load(out)(x=x, w=w), np.exp(x + 1) * w * 6, rtol=2e-5)
