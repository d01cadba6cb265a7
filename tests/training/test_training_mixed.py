"""Steps whose products are of a half type, beside torch.autocast and beside f64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.ir.graph import Graph, walk
from xlac.ir.op import OPS
from xlac.spec.load import load_training
from xlac.spec.training.products import PRODUCTS
from xlac.training import mixed
from xlac.training.trainer import Trainer
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

DENSE = """\
xlac: 1
model: dense
dims: {batch: {max: 64}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 24]", y: "i64[batch]"}
graph:
  h: {op: linear, in: x, units: 32}
  n: {op: layer_norm, in: "gelu(h)"}
  s: h * 0.5 + n
  out: {op: linear, in: relu(s), units: 5}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 1.0}}
"""
CONV = """\
xlac: 1
model: conv
dims: {batch: {max: 64}}
weights: {init: {seed: 1}}
inputs: {x: "f32[batch, 3, 9, 9]", y: "i64[batch]"}
graph:
  c: {op: conv2d, in: x, filters: 4, kernel: 3, stride: 2, pad: 1}
  n: {op: batch_norm, in: c}
  p: {op: max_pool2d, in: relu(n), kernel: 3, stride: 2, pad: 1}
  out: {op: linear, in: "flatten(p, axis=1)", units: 5}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  optimizer: {sgd: {lr: 1.0}}
"""
HALVES = {"bf16": (2.0**-8, "bfloat16"), "f16": (2.0**-11, "float16")}
"""The unit roundoff of each type, and what PyTorch calls it."""


def dense(w: dict[str, Any], x: Any, y: Any) -> Any:
    from torch.nn import functional as F

    h = F.linear(x, w["h.weight"], w["h.bias"])
    s = h * 0.5 + F.layer_norm(F.gelu(h), (32,), w["n.weight"], w["n.bias"])
    return F.cross_entropy(F.linear(F.relu(s), w["out.weight"], w["out.bias"]), y)


def conv(w: dict[str, Any], x: Any, y: Any) -> Any:
    from torch.nn import functional as F

    c = F.conv2d(x, w["c.weight"], w["c.bias"], 2, 1)
    n = F.batch_norm(c, None, None, w["n.weight"], w["n.bias"], True)
    p = F.max_pool2d(F.relu(n), 3, 2, 1).flatten(1)
    return F.cross_entropy(F.linear(p, w["out.weight"], w["out.bias"]), y)


MODELS: dict[str, tuple[str, tuple[int, ...], Callable[..., Any]]] = {
    "dense": (DENSE, (48, 24), dense),
    "conv": (CONV, (48, 3, 9, 9), conv),
}


def made(folder: Path, text: str, line: str = "", target: str = "reference") -> Trainer:
    file = folder / "m.yaml"
    file.write_text(f"{text}  {line}\n" if line else text)
    return Trainer(file, target=target)


def torch_gradients(loss: Any, weights: dict[str, Any], x: Any, y: Any, half: str = "") -> Any:
    """The loss and its gradients in f64, or by autocast."""
    torch = pytest.importorskip("torch")
    dtype = torch.float32 if half else torch.float64
    held = {n: torch.tensor(a, dtype=dtype, requires_grad=True) for n, a in weights.items()}
    with torch.autocast("cpu", dtype=getattr(torch, half or "bfloat16"), enabled=bool(half)):
        value = loss(held, torch.tensor(x, dtype=dtype), torch.tensor(y))
    scale = 1024.0 if half == "float16" else 1.0
    (value * scale).backward()
    grads = {
        n: (t.grad if t.grad is not None else torch.zeros_like(t)).double().numpy() / scale
        for n, t in held.items()
    }
    return float(value.detach()), grads


def far(some: dict[str, Any], exact: dict[str, Any]) -> float:
    """How far all gradients together are from others, relative to their length."""
    gap = sum(float(((some[n] - exact[n]) ** 2).sum()) for n in exact)
    return float((gap / sum(float((g**2).sum()) for g in exact.values())) ** 0.5)


@pytest.mark.parametrize(("name", "half", "target"), [
    ("dense", "bf16", "reference"), ("conv", "bf16", "reference"), ("dense", "f16", "reference"),
    ("conv", "f16", "reference"), ("dense", "bf16", "cpu"), ("conv", "bf16", "cpu"),
    ("dense", "bf16", "c"), ("conv", "f16", "c"),
])  # fmt: skip
@pytest.mark.sampled(8)
def test_gradients_are_as_near_as_autocasts(
    name: str, half: str, target: str, tmp_path: Path
) -> None:
    """Within eight roundings to the half type of the f64 gradient, as many as values between an
    input and the loss are rounded, and no farther than autocast's by half.
    """
    text, shape, loss = MODELS[name]
    unit, called = HALVES[half]
    trainer = made(tmp_path, text, f"compute: {half}", target)
    before = {n: a for n, a in trainer.weights().items() if n not in ("n.mean", "n.variance")}
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=shape).astype(np.float32), rng.integers(0, 5, shape[0])
    value = trainer.step(x=x, y=y)["loss"]
    after = trainer.weights()
    ours = {n: (a.astype(np.float64) - after[n]) for n, a in before.items()}
    assert all(after[n].dtype == np.float32 for n in after)
    exact, grads = torch_gradients(loss, before, x, y)
    _, theirs = torch_gradients(loss, before, x, y, called)
    assert value != exact
    assert abs(value - exact) <= 8 * unit * abs(exact)
    assert far(ours, grads) <= 8 * unit
    assert far(ours, grads) <= 1.5 * far(theirs, grads)


def test_what_is_of_which_type(tmp_path: Path) -> None:
    """Products and what follows them are halves, norms and losses f32, weights and results as they
    were.
    """
    file = tmp_path / "m.yaml"
    file.write_text(DENSE)
    _, training = load_training(file)
    (loss,) = mixed.MixedPrecision(DType.BF16).nodes([training.objectives[0].loss.value])
    assert loss.type.dtype is DType.F32
    found: dict[str, set[DType]] = {}
    for node in Graph("m", (), {"": loss}).order:
        found.setdefault(node.op.mnemonic, set()).update(
            i.type.dtype for i in node.inputs if i.type.dtype.is_float
        )
    assert found["linear"] == found["gelu"] == found["mul"] == {DType.BF16}
    assert found["layer_norm"] == found["cross_entropy"] == found["add"] == {DType.F32}
    weights = {n.name: n.type.dtype for n in walk([loss]) if n.op.mnemonic == "param"}
    assert weights["h.weight"] is DType.F32


def test_evaluation_and_the_model_stay_as_the_spec_has_them(tmp_path: Path) -> None:
    x, y = np.random.default_rng(1).normal(size=(6, 24)).astype(np.float32), np.zeros(6, np.int64)
    one, other = made(tmp_path, DENSE), made(tmp_path, DENSE, "compute: bf16")
    assert one.evaluate(x=x, y=y) == other.evaluate(x=x, y=y)
    np.testing.assert_array_equal(one(x=x), other(x=x))
    assert one.step(x=x, y=y) != other.step(x=x, y=y)


def test_loops_take_and_give_what_they_did(tmp_path: Path) -> None:
    text = DENSE.replace(
        "h: {op: linear, in: x, units: 32}",
        'z: x[:, 0:4] * 0.0\n  r: {scan: {t: "transpose(reshape(x, shape=[-1, 6, 4]), '
        'perm=[1, 0, 2])"}, carry: {c: {init: z}},\n'
        "      body: {m: {op: linear, in: c, units: 4}, k: tanh(m) + t}, next: {c: k}}\n"
        "  h: {op: linear, in: r.c, units: 32}",
    )
    trainer = made(tmp_path, text, "compute: bf16")
    wide = made(tmp_path, text)
    x, y = np.random.default_rng(1).normal(size=(6, 24)).astype(np.float32), np.zeros(6, np.int64)
    a, b = trainer.step(x=x, y=y)["loss"], wide.step(x=x, y=y)["loss"]
    assert a != b
    assert a == pytest.approx(b, rel=8 * 2.0**-8)


def test_every_name_of_the_lists_is_an_operation() -> None:
    lists = (PRODUCTS, mixed.WIDE, mixed.BACK)
    assert all(name in OPS for names in lists for name in names)
    assert sum(map(len, lists)) == len(frozenset().union(*lists))


def test_a_type_that_changes_nothing_is_a_mistake(tmp_path: Path) -> None:
    text = DENSE.replace("f32[", "f64[")
    with pytest.raises(SourceError, match=r"m\.yaml:16:12.*XL2055"):
        made(tmp_path, text, "compute: bf16")
    with pytest.raises(SourceError, match="XL1012"):
        made(tmp_path, text, "compute: f8")
