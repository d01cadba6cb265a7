"""Averages of weights: beside PyTorch's, over all that decides them, in runs and in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.spec.load import load_training
from xlac.spec.weights.safetensors import SafetensorsFile
from xlac.training.trainer import Trainer
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: small
dims: {{batch: {{max: 64}}}}
weights: {{init: {{seed: 1}}}}
inputs: {{x: "{dtype}[batch, 5]", y: "i64[batch]"}}
graph:
  h: {{op: linear, in: x, units: 7}}
  n: {{op: batch_norm, in: h}}
  out: {{op: linear, in: tanh(n), units: 3}}
outputs: [out]
train:
  batch: batch
  loss: mean(cross_entropy(out, y))
  metrics: {{accuracy: mean(f32(argmax(out, axis=-1) == y))}}
  optimizer: {{sgd: {{lr: 0.5, momentum: 0.9}}}}
  {more}
"""


def written(folder: Path, more: str, dtype: str = "f64") -> Path:
    file = folder / "m.yaml"
    file.write_text(SPEC.format(more=more, dtype=dtype))
    return file


def made(folder: Path, more: str, dtype: str = "f64", target: str = "reference") -> Trainer:
    return Trainer(written(folder, more, dtype), target=target)


def batch(seed: int, size: int = 6, dtype: type = np.float64) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=(size, 5)).astype(dtype), "y": rng.integers(0, 3, size)}


def test_averages_are_pytorchs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    swa = torch.optim.swa_utils
    trainer = made(tmp_path, "ema: {decay: 0.9, after: 1}")
    net = torch.nn.Sequential(
        torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Tanh(), torch.nn.Linear(7, 3)
    ).double()
    weights = trainer.weights()
    names = {
        "h.weight": "0.weight",
        "h.bias": "0.bias",
        "n.weight": "1.weight",
        "n.bias": "1.bias",
        "out.weight": "3.weight",
        "out.bias": "3.bias",
    }
    net.load_state_dict(
        {theirs: torch.tensor(weights[ours]) for ours, theirs in names.items()}, strict=False
    )
    averaged = swa.AveragedModel(net, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    measured: Any = 0
    for seed in range(7):
        given = batch(seed)
        trainer.step(**given)
        optimizer.zero_grad()
        out = net(torch.tensor(given["x"]))
        torch.nn.functional.cross_entropy(out, torch.tensor(given["y"])).backward()
        optimizer.step()
        averaged.update_parameters(net)
        now = net[1].running_mean.numpy().copy()
        measured = now if seed == 0 else 0.9 * measured + 0.1 * now
    found, wanted = trainer.ema.weights(), dict(averaged.module.named_parameters())
    assert found.keys() == trainer.weights().keys()
    for ours, theirs in names.items():
        np.testing.assert_allclose(found[ours], wanted[theirs].detach(), 1e-9, 1e-11, err_msg=ours)
    np.testing.assert_allclose(found["n.mean"], measured, 1e-9, 1e-11)


@pytest.mark.parametrize(
    ("ema", "decay", "after", "every"),
    [
        ("{}", lambda n: 0.999, 0, 1),
        ("{decay: 0.8, every: 3}", lambda n: 0.8, 0, 3),
        (
            "{decay: 0.5, warmup: true, after: 2}",
            lambda n: min(0.5, (1 + max(n - 2, 0)) / (10 + max(n - 2, 0))),
            2,
            1,
        ),
        ('{decay: "1 - 1 / (step + 1)"}', lambda n: n / (n + 1), 0, 1),
    ],
)
@pytest.mark.sampled(4)
def test_what_decides_averages(
    ema: str, decay: Any, after: int, every: int, tmp_path: Path
) -> None:
    trainer = made(tmp_path, f"ema: {ema}")
    wanted = trainer.weights()
    for n in range(7):
        trainer.step(**batch(n))
        for name, now in trainer.weights().items():
            if n + 1 <= after:
                wanted[name] = now
            elif (n + 1) % every == 0:
                wanted[name] = decay(n) * wanted[name] + (1 - decay(n)) * now
    for name, array in trainer.ema.weights().items():
        np.testing.assert_allclose(array, wanted[name], 1e-12, 1e-14, err_msg=name)


def test_the_model_with_averages(tmp_path: Path) -> None:
    """It is that of a trainer whose weights they are; the weights themselves are not touched."""
    trainer = made(tmp_path, "ema: {decay: 0.7}")
    for seed in range(3):
        trainer.step(**batch(seed))
    before, told = trainer.state(), trainer.evaluate(**batch(9))
    other = made(tmp_path, "ema: {decay: 0.7}")
    other.restore({**before, **trainer.ema.weights()})
    assert trainer.ema.evaluate(**batch(9)) == other.evaluate(**batch(9)) != told
    x = batch(9)["x"]
    np.testing.assert_array_equal(trainer.ema(x=x), other(x=x))
    np.testing.assert_allclose(trainer.ema.model()(x=x), other(x=x), 1e-12, 1e-14)
    assert all(np.array_equal(array, before[name]) for name, array in trainer.state().items())
    assert trainer.evaluate(**batch(9)) == told
    trainer.ema.save_weights(tmp_path / "w.safetensors")
    file = SafetensorsFile(tmp_path / "w.safetensors")
    assert all(np.array_equal(file[name], array) for name, array in other.weights().items())


def test_a_step_that_changes_nothing_changes_no_average(tmp_path: Path) -> None:
    trainer = made(tmp_path, "ema: {decay: 0.7}\n  clip: {norm: 1.0}")
    trainer.step(**batch(0))
    before = trainer.state()
    wrong = batch(1)
    wrong["x"][0, 0] = np.nan
    with pytest.raises(SourceError, match="XL6031"):
        trainer.step(**wrong)
    assert all(np.array_equal(array, before[name]) for name, array in trainer.state().items())


def test_averages_of_16_bits_are_wide(tmp_path: Path) -> None:
    file = written(tmp_path, "ema: {decay: 0.999}", "f16")
    file.write_text(file.read_text().replace("cross_entropy(out, y)", "f32(cross_entropy(out, y))"))
    trainer = Trainer(file, target="reference")
    trainer.step(**batch(0, dtype=np.float16))
    assert trainer.state()["ema.h.weight"].dtype == np.float32
    assert trainer.ema.weights()["h.weight"].dtype == np.float16


def test_a_run_validates_with_both_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    file = written(tmp_path, "ema: {decay: 0.8}", "f32")
    data, validate = batch(0, 40, np.float32), batch(1, 20, np.float32)
    options: dict[str, Any] = {"batch": 8, "best": "validate_ema_loss", "validate": validate}
    trainer = xlac.trainer(file)
    whole = xlac.train(trainer, data, tmp_path / "whole", epochs=3, **options)
    last = whole.metrics[-1]
    assert [*last][4:8] == [
        "validate_loss",
        "validate_accuracy",
        "validate_ema_loss",
        "validate_ema_accuracy",
    ]
    assert last["validate_ema_loss"] == pytest.approx(
        trainer.ema.evaluate(**validate)["loss"], rel=1e-5
    )
    assert last["validate_ema_loss"] != last["validate_loss"]
    kept = SafetensorsFile(tmp_path / "whole" / "ema_weights.safetensors")
    assert all(np.array_equal(kept[n], a) for n, a in trainer.ema.weights().items())
    assert (tmp_path / "whole" / "best_ema_weights.safetensors").is_file()
    trainer.reset()
    xlac.train(trainer, data, tmp_path / "parts", epochs=1, **options)
    trainer.reset()
    xlac.train(trainer, data, tmp_path / "parts", epochs=3, resume=True, **options)
    for name in ("weights", "ema_weights", "best_ema_weights"):
        files = [tmp_path / folder / f"{name}.safetensors" for folder in ("whole", "parts")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_entries_of_an_artefact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "ema: {decay: 0.8}", "f32")
    assert status(["build", str(file), "--dim", "batch=6", "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    model = xlac.load(tmp_path / "out")
    trainer = xlac.trainer(file, dims={"batch": 6})
    for seed in range(2):
        given = batch(seed, dtype=np.float32)
        assert model.entries["step"](**given) == trainer.step(**given)
    assert model.entries["evaluate_ema"](**given) == trainer.ema.evaluate(**given)
    found = model.entries["run_ema"](x=given["x"])["out"]
    np.testing.assert_array_equal(found, trainer.ema(x=given["x"]))
    assert np.array_equal(model.state["ema.h.weight"], trainer.state()["ema.h.weight"])


def test_check_tells_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", "-q", str(written(tmp_path, "ema: {}", "f32"))]) == 0
    assert "averages    of 8 tensors, decay 0.999: 376 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(("more", "code", "told"), [
    ("ema: {decay: 1.0}", "XL1012", "less than 1"), ("ema: {decay: -0.1}", "XL1012", "at least 0"),
    ("ema: {decay: true}", "XL1012", "at least 0"), ("ema: {decay: nan}", "XL1012", "this is nan"),
    ("ema: {decay: steps * 2}", "XL2002", "steps"), ("ema: {decay: x * step}", "XL2", ""),
    ("ema: {beta: 0.9}", "XL1010", "unknown key 'beta'"),
    ("ema: {every: 0}", "XL1012", "at least 1"), ("ema: {after: -1}", "XL1012", "at least 0"),
    ("ema: 0.999", "XL1012", "a mapping"),
])  # fmt: skip
def test_mistakes(more: str, code: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as wrong:
        load_training(written(tmp_path, more))
    assert "m.yaml:16:" in str(wrong.value)
    assert code in str(wrong.value)
    assert told in str(wrong.value)


def test_a_metric_of_the_name_of_one_that_averages_give(tmp_path: Path) -> None:
    file = written(tmp_path, "ema: {}")
    file.write_text(file.read_text().replace("{accuracy:", "{ema_loss: mean(out), accuracy:"))
    with pytest.raises(SourceError, match=r"m\.yaml:14:.*'ema_loss' is always reported"):
        load_training(file)


def test_without_averages_there_is_no_model_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceError, match="XL6056"):
        _ = made(tmp_path, "seed: 0").ema
    run = ["run", "--entry", "run_ema"]
    assert status([*run, str(written(tmp_path, "seed: 0"))]) == 2
    assert "XL6056" in capsys.readouterr().err
    assert status([*run, str(written(tmp_path, "ema: {}"))]) == 0


def test_a_weight_of_the_name_of_an_average_is_refused(tmp_path: Path) -> None:
    """With the line of the weight, before anything runs."""
    text = SPEC_OF_TWO.replace("seed: 0", "ema: {}")
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(SourceError, match=r"(?s)m\.yaml:11:.*'ema\.h\.weight' is a weight.*XL1021"):
        xlac.trainer(tmp_path / "m.yaml", target="reference")
    (tmp_path / "m.yaml").write_text(
        text.replace("  ema: {b", "  other: {b").replace("ema)", "other)")
    )
    found = xlac.trainer(tmp_path / "m.yaml", target="reference")
    found.step(x=np.ones((2, 4), np.float32))
    assert {"other.h.weight", "ema.h.weight"} < found.state().keys()


SPEC_OF_TWO = """\
xlac: 1
model: two
weights: {init: {seed: 3}}
dims: {batch: {max: 64}}
inputs: {x: "f32[batch, 4]"}
blocks:
  body:
    inputs: [v]
    outputs: [h]
    graph:
      h: {op: linear, in: v, units: 4}
graph:
  h: {op: linear, in: x, units: 4}
  ema: {block: body, in: x}
  out: abs(h - ema)
outputs: [out]
train:
  batch: batch
  loss: mean(out)
  optimizer: {sgd: {lr: 0.01}}
  seed: 0
"""
