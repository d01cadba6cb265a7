"""Training on a GPU: steps, evaluations and the model over one state, beside the same in NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_harness import OnStandin
from small_training import DENSE

import xlac
import xlac_cuda
from xlac.cli import status
from xlac_cuda.backend import CudaBackend
from xlac_sdk.source import SourceError

GPT = """
xlac: 1
model: gpt
dims: {batch: {max: 8}}
inputs: {ids: "i64[batch, 7]", label: "i64[batch, 7]"}
blocks:
  layer:
    inputs: [x]
    graph:
      n1: {op: layer_norm, in: x}
      q: {op: linear, in: n1, units: 16}
      k: {op: linear, in: n1, units: 16}
      v: {op: linear, in: n1, units: 16}
      a: {op: attention, in: {q: q, k: k, v: v}, heads: 2, causal: true}
      r: x + a
      n2: {op: layer_norm, in: r}
      up: {op: linear, in: n2, units: 64}
      down: {op: linear, in: gelu(up), units: 16}
      y: r + down
    outputs: [y]
graph:
  token: {op: embedding, in: ids, count: 11, dim: 16}
  blocks: {block: layer, in: token, repeat: 2}
  out: {op: linear, in: blocks, units: 11}
outputs: [out]
train:
  batch: batch
  init: {seed: 0}
  loss: mean(softmax_cross_entropy(out, label))
  # Adam makes steps of the rounding where a gradient is 0, as of k.bias
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
  clip: {norm: 1.0}
"""
NORM = """
xlac: 1
model: norm
dims: {batch: {max: 8}}
inputs: {x: "f32[batch, 3, 8, 8]", label: "i32[batch]"}
graph:
  c: {op: conv2d, in: x, filters: 4, kernel: 3, stride: 2, pad: 1}
  n: {op: batch_norm, in: c}
  p: {op: max_pool2d, in: relu(n), kernel: 2}
  d: {op: dropout, in: p, p: 0.25}
  out: {op: linear, in: "reshape(d, [batch, 16])", units: 5}
outputs: [out]
train:
  batch: batch
  init: {seed: 0}
  loss: mean(softmax_cross_entropy(out, label))
  optimizer: {sgd: {lr: 0.1, momentum: 0.9}}
"""
MODELS = {"dense": DENSE, "gpt": GPT, "norm": NORM}


@pytest.fixture
def on_device(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """`cuda` is the backend of these tests, by its name."""
    monkeypatch.setattr(xlac_cuda, "BACKEND", backend)
    return backend


@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_the_reference(
    name: str, on_device: CudaBackend, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if (
        name != "dense"
        and isinstance(on_device, OnStandin)
        and not request.config.getoption("--all")
    ):
        pytest.skip("half a minute on a CPU: --all, or make test-gpu")
    spec = tmp_path / f"{name}.yaml"
    spec.write_text(MODELS[name])
    ours, right = (xlac.trainer(spec, target=target) for target in ("cuda", "reference"))
    for number in range(3):
        batch = drawn(ours, number)
        alike(ours.step(**batch), right.step(**batch))
        if number == 0:
            ours.set_rate(0.02)
            right.set_rate(0.02)
        if number == 1:  # the state goes to another program, and to a new trainer
            alike(ours.evaluate(**batch), right.evaluate(**batch))
            kept = ours.state()
            ours.reset()
            ours.restore(kept)
    alike(ours.state(), right.state())
    only = {n: array for n, array in batch.items() if n in ("x", "ids")}
    np.testing.assert_allclose(ours(**only), right(**only), rtol=1e-4, atol=1e-5)


def drawn(trainer: Any, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for name, type in trainer.inputs.items():
        shape = (4, *type.shape[1:])
        most = trainer.ranges[name].most if name in trainer.ranges else 10
        found[name] = (
            rng.standard_normal(shape) if type.dtype.is_float else rng.integers(0, most + 1, shape)
        ).astype(type.dtype.numpy)
    return found


def alike(ours: Any, right: Any) -> None:
    """Tensors by name, of f32 sums in another order."""
    assert ours.keys() == right.keys()
    for name in ours:
        scale = max(1e-3, float(np.abs(right[name]).max()))
        np.testing.assert_allclose(
            ours[name], right[name], rtol=1e-4, atol=1e-4 * scale, err_msg=name
        )


def test_an_artefact_learns(
    on_device: CudaBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is built for a GPU: its entries work on one arena and one state there."""
    if isinstance(on_device, OnStandin):

        def built(sources: dict[str, str], folder: Path) -> Path:
            return on_device.build(sources, folder)

        monkeypatch.setattr("xlac_cuda.build.compiler.build", built)
    spec = tmp_path / "dense.yaml"
    text = DENSE.replace("lr: 0.1,", "lr: {cosine: {peak: 0.1}},")
    spec.write_text(text + "  clip: {norm: 1.0}\n")
    folder = tmp_path / "out"
    options = ["--target", "cuda", "--emit", "cu", "--dim", "batch=4", "-o", str(folder)]
    assert status(["build", str(spec), *options]) == 0
    model = xlac.load(folder)
    right = xlac.trainer(spec, target="reference", dims={"batch": 4})
    batch = drawn(right, 0)
    alike(model.state.copy(), right.state())
    with pytest.raises(SourceError, match="XL6030"):
        model.entries["step"](**batch)
    right.set_length(10)
    model.state.set_number("length", 10)
    for number in range(2):
        batch = drawn(right, number)
        alike(model.entries["step"](**batch), right.step(**batch))
        np.testing.assert_allclose(model(batch["x"]), right(x=batch["x"]), rtol=1e-4, atol=1e-5)
    alike(model.entries["evaluate"](**batch), right.evaluate(**batch))
    before = model.state.copy()
    alike(before, right.state())
    with pytest.raises(SourceError, match="XL6031"):
        model.entries["step"](batch["x"] * np.float32(np.nan), batch["y"])
    assert all(np.array_equal(array, before[name]) for name, array in model.state.copy().items())
    model.reset()
    right.reset()
    alike(model.state.copy(), right.state())
