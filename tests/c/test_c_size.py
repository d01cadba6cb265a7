"""--size: how small a stacked LSTM must be whose weights are 348,480 bytes."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import SPECS, build, needs, run

import xlac
from xlac.cli import status

LSTM = SPECS / "lstm_3x60.yaml"
WEIGHTS = 348_480
ARM = "arm-linux-gnueabihf-"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("lstm_3x60", tmp_path_factory.mktemp("small") / "lstm", "--size")


def section(file: Path, name: str, tools: str = "") -> int:
    """Bytes of a section."""
    for line in run(f"{tools}size", "-A", file).splitlines():
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    return 0


def shared(folder: Path, made: Path, tools: str) -> Path:
    run(
        f"{tools}gcc",
        "-std=c99",
        "-Os",
        "-shared",
        "-fPIC",
        folder / "lstm_3x60.c",
        "-lm",
        "-o",
        made,
    )
    run(f"{tools}strip", made)
    return made


def test_a_shared_object_for_32_bit_arm(small: Path, tmp_path: Path) -> None:
    needs(f"{ARM}gcc")
    made = shared(small, tmp_path / "liblstm.so", ARM)
    assert made.stat().st_size <= 354_000
    assert section(made, ".text", ARM) <= 1_300


START = """
#include "lstm_3x60.h"

void *memcpy(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
size_t strlen(const char *text);

void *memcpy(void *to, const void *from, size_t count)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    return to;
}
void *memset(void *to, int value, size_t count)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
    return to;
}
size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length] != 0) ++length;
    return length;
}

static float x[LSTM_3X60_X_COUNT], y[LSTM_3X60_Y_COUNT], h[LSTM_3X60_H_N_COUNT];
static union { unsigned char bytes[LSTM_3X60_MEMORY_BYTES]; int64_t aligned; } memory;

__attribute__((force_align_arg_pointer, noreturn)) void _start(void)
{
    lstm_3x60_context context;
    lstm_3x60_status status = lstm_3x60_init(&context, memory.bytes, sizeof memory.bytes);
    if (status == 0) status = lstm_3x60_run(&context, x, y, h);
    if (status == 0 && !(y[0] > -1 && y[0] < 1 && y[0] != 0)) status = 100;
    __asm__ volatile("syscall" : : "a"(60), "D"(status));
    for (;;) {}
}
"""


def test_a_program_for_x86_without_a_c_library(tmp_path: Path) -> None:
    needs("gcc")
    if platform.machine() != "x86_64":
        pytest.skip("the start file is for x86-64")
    folder = build("lstm_3x60", tmp_path / "lstm", "--size", "--no-libm")
    (folder / "start.c").write_text(START)
    files = folder / "lstm_3x60.c", folder / "start.c"
    run(
        "gcc",
        "-Os",
        "-s",
        "-static",
        "-nostdlib",
        "-fno-builtin",
        "-fno-tree-loop-distribute-patterns",
        "-Wl,-z,noseparate-code",
        *files,
        "-o",
        folder / "lstm",
    )
    assert (folder / "lstm").stat().st_size <= 360_000
    run(folder / "lstm")


@pytest.mark.long
def test_small_code_is_smaller_and_computes_the_same(small: Path, tmp_path: Path) -> None:
    needs("gcc")
    large = build("lstm_3x60", tmp_path / "large")
    sizes = []
    for folder in (small, large):
        run("gcc", "-Os", "-c", folder / "lstm_3x60.c", "-o", tmp_path / "model.o")
        sizes.append(section(tmp_path / "model.o", ".text"))
    assert sizes[0] * 3 < sizes[1] * 2
    x = np.random.default_rng(0).standard_normal((1, 32, 60)).astype(np.float32)
    expected = xlac.compile(LSTM, target="reference", dims={"B": 1, "T": 32})(x)
    for a, b in zip(results(xlac.load(small)(x)), results(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_kernels_that_are_alike_are_one_function(small: Path) -> None:
    text = (small / "lstm_3x60.c").read_text()
    kernels = [line for line in text.splitlines() if line.startswith("static void ")]
    assert len(kernels) == len(set(kernels)) <= 7
    # the function, and a call for each layer whose input is known only within the loop
    assert text.count(" dot_4(") == 3


def test_a_shared_expansion_is_one_function(tmp_path: Path) -> None:
    folder = build("lstm_3x60", tmp_path / "lstm", "--size", "--no-libm")
    text = (folder / "lstm_3x60.c").read_text()
    assert (
        text.count("static float sigmoid_f32(") == 1 and text.count("static float tanh_f32(") == 1
    )


@pytest.mark.parametrize(
    "options", [("--size",), ("--no-libm",), ("--size", "--no-libm")], ids=" ".join
)
@pytest.mark.parametrize("spec", ["digits", "loop_while", "branch_cond"])
@pytest.mark.sampled(6)
def test_options_do_not_change_results(spec: str, options: tuple[str, ...], tmp_path: Path) -> None:
    needs("cc")
    assert (
        status(
            [
                "build",
                str(SPECS / f"{spec}.yaml"),
                "--target",
                "c",
                "-o",
                str(tmp_path / "out"),
                *options,
            ]
        )
        == 0
    )
    model = xlac.load(tmp_path / "out")
    rng = np.random.default_rng(1)
    inputs = {s.name: values(s.shape, s.dtype.numpy, rng) for s in model.program.inputs}
    loaded = xlac.frontends.loader.load(SPECS / f"{spec}.yaml")
    reference = xlac.compile(
        SPECS / f"{spec}.yaml", target="reference", dims={k: s.opt for k, s in loaded.dims.items()}
    )
    for a, b in zip(results(model(**inputs)), results(reference(**inputs)), strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=3e-6)


def values(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)


def results(given: Any) -> tuple[np.ndarray, ...]:
    """The arrays that a model returned."""
    if isinstance(given, dict):
        return tuple(given.values())
    return given if isinstance(given, tuple) else (given,)
