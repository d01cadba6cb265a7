"""Loops with a bound in specs: gradients beside JAX's, on every target; what a bound that is too
small, and one that is missing, say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.exporters.spec.files import write
from xlac.frontends.loader import load
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError, UnsupportedError

LOOP = """\
xlac: 1
model: root
dims: {{batch: {{max: 8}}}}
weights: {{init: {{seed: 3, tensors: {{"*": {{scheme: uniform, low: 0.2, high: 0.6}}}}}}}}
inputs: {{x: "f64[batch, 3]"}}
graph:
  w: {{op: weight, type: "f64[3, 3]"}}
  fixed:
    while: (change > 1e-3) & (steps < 40)
    {bound}
    carry:
      h: x
      change: {{init: 1.0, type: "f64[]"}}
      steps: {{init: 0, type: "i32[]"}}
    body:
      new: tanh(matmul(h, w) + x)
      moved: reduce_max(abs(new - h))
    next: {{h: new, change: moved, steps: steps + 1}}
outputs: {{h: fixed.h, steps: fixed.steps}}
"""

TRAIN = """\
xlac: 1
model: trained
include: [m.yaml]
inputs: {y: "f64[batch, 3]"}
train:
  batch: batch
  loss: mean((fixed.h - y) ** 2.0)
  optimizer: {sgd: {lr: 1.0}}
"""


def data(size: int = 4) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {n: rng.uniform(-0.5, 0.5, (size, 3)) for n in ("x", "y")}


def written(folder: Path, bound: str = "max: 50") -> Path:
    (folder / "m.yaml").write_text(LOOP.format(bound=bound))
    (folder / "trained.yaml").write_text(TRAIN)
    return folder / "m.yaml"


def trained(folder: Path, bound: str, target: str) -> Trainer:
    return xlac.trainer(written(folder, bound).with_name("trained.yaml"), target=target)


def theirs(w: Any, x: Any, y: Any, rounds: int) -> tuple[Any, Any]:
    """The loss and its gradient by JAX: scans whose steps do nothing once a condition is false."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def loss(w: Any) -> Any:
        def step(carry: Any, _: Any) -> tuple[Any, None]:
            h, change, steps = carry
            new = jnp.tanh(h @ w + x)
            goes = (change > 1e-3) & (steps < 40)
            after = (new, jnp.max(jnp.abs(new - h)), steps + 1)
            return tuple(jnp.where(goes, a, b) for a, b in zip(after, carry, strict=True)), None

        (h, _, _), _ = jax.lax.scan(step, (x, jnp.float64(1.0), 0), None, length=rounds)
        return jnp.mean((h - y) ** 2)

    with jax.enable_x64(True):
        return tuple(map(np.asarray, jax.value_and_grad(loss)(w)))


@pytest.mark.parametrize("bound", ["max: 50", "max: 3"])
@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
def test_gradient_beside_jax(target: str, bound: str, tmp_path: Path) -> None:
    """One step at rate 1 takes the gradient off the weight; steps run as often as the data say."""
    pytest.importorskip("jax")
    trainer = trained(tmp_path, bound, target)
    before = np.array(trainer.state()["w"])
    given = data()
    told = trainer.step(**given)
    value, gradient = theirs(before, given["x"], given["y"], int(bound.split()[1]))
    assert told["loss"] == pytest.approx(float(value), rel=1e-12)
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(before - trainer.state()["w"], gradient, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
@pytest.mark.sampled(6)
def test_a_bound_that_is_too_small(target: str, tmp_path: Path) -> None:
    """It ends the loop; a checked program says so, with the place of the loop."""
    file, x = written(tmp_path, "max: 3"), data()["x"]
    found = xlac.compile(file, target)(x)
    assert found["steps"] == 3
    with pytest.raises(SourceError) as told:
        xlac.compile(file, target, checked="bounds")(x)
    assert "m.yaml:8:3: error: 'fixed': the loop would go on after 3 steps, its max" in str(
        told.value
    )
    enough = xlac.compile(written(tmp_path, "max: 50"), target, checked=True)(x)
    assert 3 < enough["steps"] < 40


def test_a_loop_without_a_bound(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as told:
        trained(tmp_path, "", "reference")
    where, message = (
        "m.yaml:8:3: error: ",
        "while 'fixed' has a number of steps that depends on data",
    )
    assert where + message in str(told.value)
    assert "give `max`, the most steps that it takes" in str(told.value) and "XL2042" in str(
        told.value
    )


@pytest.mark.parametrize("bound", ["max: 0", "max: -1", "max: 3000000000", "max: 1.5"])
def test_no_bound(bound: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"m.yaml:10:10: error: .*\[XL"):
        load(written(tmp_path, bound))


def test_a_loop_is_written_with_its_bound(tmp_path: Path) -> None:
    model = load(written(tmp_path))
    write(model, tmp_path / "again.yaml")
    assert "max: 50" in (tmp_path / "again.yaml").read_text()
    x = data()["x"]
    one, other = (xlac.compile(tmp_path / f, "reference")(x) for f in ("m.yaml", "again.yaml"))
    assert np.array_equal(one["h"], other["h"]) and one["steps"] == other["steps"]
