"""Shipped models on other machines: objects, programs and modules of `xlac build`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch import Task, results
from machines import MACHINES, Other

import xlac
from xlac.driver import lower, specialized, unfixed
from xlac.frontends.loader import load
from xlac_cpu import BACKEND

sys.path.insert(0, str(Path(__file__).parents[1] / "aot"))
from packages import SPECS, build, by_name, inputs_of

pytestmark = pytest.mark.timeout(1800)
SIZES: dict[str, tuple[dict[str, int | str], dict[str, object]]] = {
    "digits": ({"batch": 3}, {}),
    "lstm_3x60": ({"T": 8}, {}),
    "tagger": ({}, {}),
    "loop_while": ({}, {}),
    "bert_layer": ({"sequence": 12}, {"hidden": 64, "heads": 4, "ffn": 128}),
    "mlp_small": ({}, {}),
    "softmax": ({}, {}),
    "layernorm_gelu": ({}, {}),
}
# more than the 4 MB of a microcontroller's board
LARGE = ("tagger", "mlp_small", "softmax", "layernorm_gelu")
SYSTEMS = [m for m in MACHINES if "linux" in m.triple]
PAIRS = [(spec, m) for spec in SIZES for m in MACHINES if not (m.bare and spec in LARGE)]


@pytest.mark.parametrize(("spec", "other"), PAIRS, ids=[f"{spec}-{m.name}" for spec, m in PAIRS])
def test_models_agree(spec: str, other: Other) -> None:
    dims, params = SIZES[spec]
    model = specialized(load(SPECS / f"{spec}.yaml", dims=dims, params=params))
    target = BACKEND.target(other.request)
    program = lower(model, target).program
    here = xlac.compile(model, "cpu")
    inputs = inputs_of(here)  # type: ignore[arg-type]
    (got,) = results([Task(program, inputs)], target, other)
    right = by_name(here(**inputs), here.outputs)
    assert got is not None and got.keys() == right.keys()
    for name, want in right.items():
        np.testing.assert_allclose(got[name], want, rtol=2e-4, atol=2e-5, err_msg=f"{spec}.{name}")


@pytest.mark.parametrize("spec", ["digits", "lstm_3x60"])
def test_small_code_agrees(spec: str, other: Other) -> None:
    dims, params = SIZES[spec]
    model = specialized(load(SPECS / f"{spec}.yaml", dims=dims, params=params))
    target = BACKEND.target(replace(other.request, size=True))
    here = xlac.compile(model, "cpu")
    inputs = inputs_of(here)  # type: ignore[arg-type]
    (got,) = results([Task(lower(model, target).program, inputs)], target, other)
    assert got is not None
    for name, want in by_name(here(**inputs), here.outputs).items():
        np.testing.assert_allclose(got[name], want, rtol=2e-4, atol=2e-5, err_msg=f"{spec}.{name}")


@pytest.mark.parametrize("variants", [(), (5,), (3, 4)], ids=["", "variant", "variants"])
@pytest.mark.parametrize(("spec", "dim", "most"), [("digits", "batch", 9), ("lstm_3x60", "T", 8)])
def test_open_sizes_agree(
    spec: str, dim: str, most: int, variants: tuple[int, ...], other: Other
) -> None:
    """On machines of 32 bits too, where sizes are wider than pointers; by code for any size, and
    for those of variants.
    """
    model = load(
        SPECS / f"{spec}.yaml",
        dims={dim: f"1..{most}", **({"B": 1} if spec == "lstm_3x60" else {})},
    )
    target = BACKEND.target(other.request)
    program = lower(unfixed(model), target, variants=[{dim: size} for size in variants]).program
    for chosen in variants or (5,):
        here = xlac.compile(specialized(model, {dim: chosen}), "cpu")
        inputs = inputs_of(here)  # type: ignore[arg-type]
        (got,) = results([Task(program, inputs, sizes=(chosen,))], target, other)
        assert got is not None
        for name, want in by_name(here(**inputs), here.outputs).items():
            np.testing.assert_allclose(
                got[name], want, rtol=2e-4, atol=2e-5, err_msg=f"{spec}.{name}"
            )


@pytest.mark.parametrize("spec", ["digits", "lstm_3x60"])
@pytest.mark.parametrize("other", SYSTEMS, ids=lambda machine: machine.name)
def test_programs_read_and_write_npy(spec: str, other: Other, tmp_path: Path) -> None:
    folder = build(
        spec,
        tmp_path / "out",
        "--emit",
        "exe",
        "--static",
        "--triple",
        other.triple,
        "--cpu",
        other.cpu,
    )
    here = xlac.compile(specialized(load(SPECS / f"{spec}.yaml")), "cpu")
    inputs = inputs_of(here)  # type: ignore[arg-type]
    for name, array in inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    given = [f"{name}={tmp_path / name}.npy" for name in inputs]
    done = other.run(folder / spec, *given)
    assert done.returncode == 0, done.stderr
    for name, want in by_name(here(**inputs), here.outputs).items():
        np.testing.assert_allclose(np.load(folder / f"{name}.npy"), want, rtol=2e-4, atol=2e-5)
    assert other.run(folder / spec).returncode == 2
    assert other.run(folder / spec, *(f"{name}=nowhere.npy" for name in inputs)).returncode == 1


CALLER = """\
#include <stdio.h>
#include "softmax.h"
static union { unsigned char bytes[SOFTMAX_MEMORY_BYTES + SOFTMAX_ALIGN]; double aligned; } room;
int main(void) {
    static float x[SOFTMAX_X_COUNT], y[SOFTMAX_Y_COUNT];
    softmax_context context;
    unsigned char *memory = room.bytes +
        (SOFTMAX_ALIGN - (uintptr_t)room.bytes % SOFTMAX_ALIGN) % SOFTMAX_ALIGN;
    if (fread(x, sizeof x, 1, stdin) != 1) return 1;
    if (softmax_init(&context, memory, SOFTMAX_MEMORY_BYTES) ||
        softmax_run(&context, x, y)) return 2;
    return fwrite(y, sizeof y, 1, stdout) != 1;
}
"""


@pytest.mark.parametrize("form", ["a", "so"])
@pytest.mark.parametrize("name", ["aarch64", "armv7", "riscv64"])
def test_libraries_link_with_the_c_compiler_of_the_machine(
    name: str, form: str, tmp_path: Path
) -> None:
    prefix = {
        "aarch64": "aarch64-linux-gnu",
        "armv7": "arm-linux-gnueabihf",
        "riscv64": "riscv64-linux-gnu",
    }[name]
    other = next(m for m in MACHINES if m.name == name)
    here: Any = xlac.compile(specialized(load(SPECS / "softmax.yaml")), "cpu")
    folder = build(
        "softmax",
        tmp_path / "out",
        "--emit",
        f"h,{form}",
        "--triple",
        other.triple,
        "--cpu",
        other.cpu,
    )
    (tmp_path / "main.c").write_text(CALLER)
    command = [
        f"{prefix}-gcc",
        "-std=c99",
        "-I",
        str(folder),
        "main.c",
        str(folder / f"libsoftmax.{form}"),
        "-o",
        "main",
    ]
    subprocess.run([*command, f"-Wl,-rpath,{folder}"], cwd=tmp_path, check=True)
    inputs = inputs_of(here)
    root = ("-L", f"/usr/{prefix}")
    done = subprocess.run(
        [other.runs[0], *root, "./main"],
        cwd=tmp_path,
        input=inputs["x"].tobytes(),
        capture_output=True,
        check=True,
    )
    want = by_name(here(**inputs), here.outputs)["y"]
    np.testing.assert_allclose(
        np.frombuffer(done.stdout, np.float32).reshape(want.shape), want, rtol=2e-4, atol=2e-6
    )


def test_a_wasm_module_is_called_from_javascript(tmp_path: Path) -> None:
    other = next(m for m in MACHINES if m.wasm)
    folder = build(
        "digits", tmp_path / "out", "--emit", "h,wasm", "--triple", other.triple, "--dim", "batch=2"
    )
    (tmp_path / "call.mjs").write_text(JAVASCRIPT)
    here = xlac.compile(SPECS / "digits.yaml", "cpu", dims={"batch": 2})
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    done = subprocess.run(
        [*other.runs[:1], "call.mjs", str(folder / "digits.wasm")],
        cwd=tmp_path,
        input=x.tobytes(),
        capture_output=True,
        check=True,
    )
    np.testing.assert_allclose(
        np.frombuffer(done.stdout, np.float32).reshape(2, 10), here(x), rtol=1e-5, atol=1e-6
    )


JAVASCRIPT = """\
import { readFileSync, writeFileSync } from "node:fs";
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const { memory, digits_size, digits_init, digits_run, __heap_base } = instance.exports;
const context = (__heap_base.value + 63) & ~63, block = context + 64,
      image = (block + digits_size() + 63) & ~63;
const probs = image + 2 * 64 * 4;
memory.grow(2);
new Uint8Array(memory.buffer).set(readFileSync(0), image);
if (digits_init(context, block, digits_size()) || digits_run(context, image, probs))
  process.exit(1);
writeFileSync(1, new Uint8Array(memory.buffer, probs, 2 * 10 * 4));
"""
