"""State that a model carries between calls: in the context's memory, zero after init and reset."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import build, needs, run

import xlac
from xlac_sdk.host.capi.library import ContextStruct, aligned

CELL = """
  cell:
    inputs: [x, h, c]
    graph:
      gates: {op: linear, in: [x, h], units: 48}
      i, f, g, o: split(gates, parts=4, axis=-1)
      c1: sigmoid(f) * c + sigmoid(i) * tanh(g)
      h1: sigmoid(o) * tanh(c1)
    outputs: {h: h1, c: c1}
"""
HEAD = "xlac: 1\nmodel: MODEL\nweights: lstm.safetensors\nblocks:\n" + CELL.strip("\n") + "\n"
STEP = (
    HEAD
    + """
inputs: {x: "f32[1, 12]"}
state:
  h: {type: "f32[1, 12]", next: layer.h}
  c: {type: "f32[1, 12]", next: layer.c}
graph:
  layer: {block: cell, in: [x, h, c]}
outputs: {y: layer.h}
"""
)
SEQUENCE = (
    HEAD
    + """
inputs: {x: "f32[1, 9, 12]"}
graph:
  zero: zeros([1, 12])
  rnn:
    scan: {x_t: x}
    axis: 1
    carry: {h: zero, c: zero}
    body:
      layer: {block: cell, in: [x_t, h, c]}
    next: {h: layer.h, c: layer.c}
    stack: {y: layer.h}
outputs: {y: rnn.y}
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cell as a step with state, and over a sequence, with the same weights."""
    from safetensors.numpy import save_file

    made = tmp_path_factory.mktemp("state")
    arrays: dict[str, np.ndarray] = {}
    for prefix in ("layer", "rnn.layer"):
        rng = np.random.default_rng(0)
        arrays |= {
            f"{prefix}.gates.weight_0": rng.standard_normal((48, 12)).astype(np.float32) * 0.4,
            f"{prefix}.gates.weight_1": rng.standard_normal((48, 12)).astype(np.float32) * 0.4,
            f"{prefix}.gates.bias": rng.standard_normal(48).astype(np.float32) * 0.1,
        }
    for name, text in (("step", STEP), ("sequence", SEQUENCE)):
        part = made / name
        part.mkdir()
        (part / f"{name}.yaml").write_text(text.replace("MODEL", name))
        wanted = "rnn." if name == "sequence" else "layer."
        save_file(
            {k: v for k, v in arrays.items() if k.startswith(wanted)}, part / "lstm.safetensors"
        )
    return made


def test_a_step_at_a_time_is_the_sequence(folder: Path, tmp_path: Path) -> None:
    needs("cc")
    build(str(folder / "step" / "step.yaml"), tmp_path / "step")
    run(
        "cc",
        "-std=c99",
        "-O2",
        "-shared",
        "-fPIC",
        tmp_path / "step" / "step.c",
        "-lm",
        "-o",
        tmp_path / "step.so",
    )
    library = ctypes.CDLL(str(tmp_path / "step.so"))
    library.step_size.restype = ctypes.c_size_t
    x = np.random.default_rng(1).standard_normal((1, 9, 12)).astype(np.float32)
    expected = np.asarray(
        xlac.compile(folder / "sequence" / "sequence.yaml", target="reference")(x)
    )

    def pointer(array: np.ndarray) -> Any:
        return ctypes.c_void_p(array.ctypes.data)

    contexts = []
    for _ in range(2):  # two streams side by side, neither knowing of the other
        context, memory = ContextStruct(), aligned(int(library.step_size()))
        memory[:] = 0xFF
        assert (
            library.step_init(ctypes.byref(context), pointer(memory), ctypes.c_size_t(len(memory)))
            == 0
        )
        contexts.append((context, memory))
    for again in range(2):
        for t in range(9):
            for number, (context, _) in enumerate(contexts):
                given, y = (
                    np.ascontiguousarray(x[:, t] if number == 0 else x[:, 8 - t]),
                    np.empty((1, 12), np.float32),
                )
                assert library.step_run(ctypes.byref(context), pointer(given), pointer(y)) == 0
                if number == 0:
                    np.testing.assert_allclose(
                        y, expected[:, t], rtol=1e-5, atol=1e-6, err_msg=f"turn {again}, step {t}"
                    )
        for context, _ in contexts:
            assert library.step_reset(ctypes.byref(context)) == 0


def test_without_a_reset_the_state_goes_on(folder: Path, tmp_path: Path) -> None:
    needs("cc")
    build(str(folder / "step" / "step.yaml"), tmp_path / "step", "--emit", "c,h,so")
    model = xlac.load(tmp_path / "step")
    x = np.ones((1, 12), np.float32)
    first, second = np.asarray(model(x)), np.asarray(model(x))
    assert np.abs(first - second).max() > 1e-3
    model.reset()
    np.testing.assert_array_equal(np.asarray(model(x)), first)


def test_the_header_says_that_there_is_state(folder: Path, tmp_path: Path) -> None:
    header = (build(str(folder / "step" / "step.yaml"), tmp_path / "step") / "step.h").read_text()
    assert (
        "#define STEP_STATE_BYTES 128" in header
        and "carries state from one call to the next" in header
    )
