"""Factors of low rank apart from their weights and merged: arrays, files, runs, C; and what is
wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lora_specs import FACTORS, SPEC, batch, made

import xlac
from xlac.cli import status
from xlac.ir.types import Type
from xlac.spec.load import load, load_training
from xlac.spec.weights.safetensors import SafetensorsFile, TensorSource, write_tensors
from xlac.training.loop.train import train
from xlac.training.weights import PREFIX, write_weights
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError


def test_factors_begin_as_those_of_peft(tmp_path: Path) -> None:
    """Their product is zero, so the model is at first what it was."""
    trainer = made(tmp_path)
    found = trainer.weights(merged=False)
    for name, (a, b, _) in FACTORS.items():
        zero, drawn = (a, b) if name == "table" else (b, a)
        assert not found[zero].any()
        assert found[drawn].std() > 0.1
        if name != "table":
            most = found[drawn][0].size ** -0.5
            assert 0.5 * most < np.abs(found[drawn]).max() <= most
    assert found["conv.lora_A.weight"].shape == (2, 2, 3, 3)
    assert found["conv.lora_B.weight"].shape == (4, 2, 1, 1)
    base = xlac.compile(base_spec(tmp_path), target="reference")
    given = {name: batch()[name] for name in ("ids", "image")}
    assert np.array_equal(trainer(**given), base(**given))
    other = made(tmp_path, SPEC.replace("  batch: batch", "  batch: batch\n  seed: 5")).weights(
        False
    )
    assert not np.array_equal(other["query.lora_A.weight"], found["query.lora_A.weight"])
    assert np.array_equal(other["query.weight"], found["query.weight"])


def base_spec(folder: Path) -> Path:
    """The model alone."""
    file = folder / "base.yaml"
    file.write_text(SPEC.partition("train:")[0].replace('y: "i64[batch]"', ""))
    return file


@pytest.mark.long
def test_merged_weights_are_the_models_and_factors_a_small_file(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    for seed in range(3):
        trainer.step(**batch(seed))
    merged, apart = trainer.weights(), trainer.weights(merged=False)
    assert {n for n in apart if "lora" not in n} == set(merged)
    for name, (a, b, scale) in FACTORS.items():
        key = name if name in merged else f"{name}.weight"
        change = apart[b].reshape(len(apart[b]), -1) @ apart[a].reshape(len(apart[a]), -1)
        if name in ("table", "mix"):
            change = change.T
        assert merged[key].shape == apart[key].shape
        np.testing.assert_allclose(
            merged[key], apart[key] + scale * change.reshape(merged[key].shape), 1e-12
        )
    trainer.save_weights(tmp_path / "merged.safetensors")
    text = (
        base_spec(tmp_path)
        .read_text()
        .replace("weights: {init: {seed: 1}}", "weights: merged.safetensors")
    )
    (tmp_path / "base.yaml").write_text(text)
    given = {name: batch()[name] for name in ("ids", "image")}
    model = xlac.compile(tmp_path / "base.yaml", target="reference")
    np.testing.assert_allclose(model(**given), trainer(**given), 1e-12)
    trainer.save_factors(tmp_path / "lora.safetensors")
    names = {name for pair in FACTORS.values() for name in pair[:2]}
    assert set(SafetensorsFile(tmp_path / "lora.safetensors")) == names | {"head.bias", "conv.bias"}
    second = made(tmp_path)
    second.load_factors(tmp_path / "lora.safetensors")
    assert all(np.array_equal(array, merged[n]) for n, array in second.weights().items())
    assert second.steps_done == 0


def test_factors_of_another_model_are_refused(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    trainer.step(**batch())
    before = trainer.state()
    file = tmp_path / "lora.safetensors"
    made(tmp_path, SPEC.replace("rank: 3, alpha: 6", "rank: 2, alpha: 6")).save_factors(file)
    with pytest.raises(SourceError, match=r"(?s)XL3020|key.lora_A.weight is float64\[2, 7\]"):
        trainer.load_factors(file)
    made(tmp_path, SPEC.replace("rank: 3, alpha: 6", "rank: 3, alpha: 9")).save_factors(file)
    with pytest.raises(SourceError, match=r"scaled by 3\.0, and the spec says 2\.0"):
        trainer.load_factors(file)
    write_weights(
        file,
        {
            PREFIX + n: a
            for n, a in trainer.weights(False).items()
            if "lora" in n and "mix" not in n
        },
    )
    with pytest.raises(SourceError, match=r"mix\.lora_A\.weight is missing"):
        trainer.load_factors(file)
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(SourceError, match="XL3004"):
        trainer.load_factors(file)
    assert all(np.array_equal(array, before[n]) for n, array in trainer.state().items())


def test_what_the_first_factor_multiplies_is_dropped(tmp_path: Path) -> None:
    """In steps only, and only beside the weight: the factors' product is what is measured."""
    trainer = made(tmp_path, DROPPED)
    state = trainer.state()
    state["h.lora_B.weight"] = np.ones((4, 1))
    state["h.lora_A.weight"] = np.ones((1, 64))
    trainer.restore(state)
    x = np.ones((8, 64))
    base = (x @ trainer.weights(False)["h.weight"].T).mean()
    seen = [trainer.step(x=x)["out"] - base for _ in range(3)]
    assert len(set(seen)) == 3
    assert np.mean(seen) == pytest.approx(64, abs=4)
    assert trainer.evaluate(x=x)["out"] - base == pytest.approx(64)


DROPPED = """\
xlac: 1
model: dropped
dims: {batch: {max: 8}}
weights: {init: {seed: 1}}
inputs: {x: "f64[batch, 64]"}
graph: {h: {op: linear, in: x, units: 4, bias: false}}
outputs: [h]
train:
  batch: batch
  loss: mean(h ** 2.0)
  metrics: {out: mean(h)}
  optimizer: {sgd: {lr: 0.0}}
  lora: {h.weight: {rank: 1, dropout: 0.5}}
"""


@pytest.mark.long
def test_a_run_writes_factors_beside_or_instead_of_weights(tmp_path: Path) -> None:
    trainer = made(tmp_path)
    data = {name: np.concatenate([batch(n)[name] for n in range(3)]) for name in batch()}
    for options, files in (({}, {"weights", "lora"}), ({"merge": False}, {"lora"})):
        folder = tmp_path / f"run{len(options)}"
        train(trainer, data, folder, validate=data, epochs=2, batch=4, **options)
        found = {path.name for path in folder.glob("*.safetensors")}
        assert found == {"best.safetensors"} | {
            f"{p}{n}.safetensors" for n in files for p in ("", "best_")
        }
    trainer.reset()
    trainer.load_factors(folder / "lora.safetensors")
    assert trainer.state()["query.lora_B.weight"].any()


@pytest.mark.long
def test_averages_of_factors_are_written_and_begin_as_those_that_were_read(tmp_path: Path) -> None:
    made(tmp_path)
    (spec,) = tmp_path.glob("*.yaml")
    spec.write_text(spec.read_text().rstrip("\n") + "\n  ema: {decay: 0.5}\n")
    trainer, other = (xlac.trainer(spec, target="reference") for _ in range(2))
    train(trainer, batch(), tmp_path / "run", epochs=2, batch=4, merge=False)
    found = SafetensorsFile(tmp_path / "run" / "ema_lora.safetensors")
    name = "query.lora_B.weight"
    assert np.array_equal(found[name], trainer.state()[f"ema.{name}"]) and found[name].any()
    assert not np.array_equal(found[name], trainer.state()[name])
    other.load_factors(tmp_path / "run" / "lora.safetensors")
    assert other.ema.evaluate(**batch()) == other.evaluate(**batch()) == trainer.evaluate(**batch())
    other.load_factors(tmp_path / "run" / "ema_lora.safetensors")
    assert other.evaluate(**batch()) == trainer.ema.evaluate(**batch())


def test_as_c_factors_are_state_and_weights_constants(tmp_path: Path) -> None:
    (tmp_path / "dropped.yaml").write_text(DROPPED.replace("f64", "f32"))
    asked = [
        "build",
        str(tmp_path / "dropped.yaml"),
        "--target",
        "c",
        "--emit",
        "c,h",
        "--dim",
        "batch=4",
    ]
    assert status([*asked, "-o", str(tmp_path / "out")]) == 0
    header = (tmp_path / "out" / "dropped.h").read_text()
    assert "TENSOR_H_LORA_A_WEIGHT" in header
    assert "TENSOR_H_WEIGHT" not in header


WRONG = {
    ('"mix":', '"mixx":'): ("XL3011", 25, "fits no weight that can learn: 'mixx'"),
    ('"mix":', "head.bias:"): ("XL2059", 25, "head.bias is f64[3]"),
    ("{rank: 1}", "{rank: 5}"): ("XL2059", 26, "whose rank is at most 4"),
    ("{rank: 1}", "{rank: 0}"): ("XL1012", 26, "at least 1"),
    ("{rank: 1}", "{rank: 1, alpha: -2}"): ("XL1012", 26, "more than 0"),
    ("{rank: 1}", "{rank: 1, dropout: 0.5}"): ("XL2059", 26, "scaled is read by tanh"),
    ("{rank: 1}", "{ranc: 1}"): ("XL1010", 26, "rank"),
    ('"*.weight": {rank: 2}', '"*.weight": {rank: 2, dropout: 0.1}'): (
        "XL2059",
        24,
        "table.weight is read by embedding",
    ),
    ('"head.bias",', '"mix",'): ("XL3011", 28, "fits no weight that can learn: 'mix'"),
}


@pytest.mark.parametrize("change", WRONG)
def test_mistakes(change: tuple[str, str], tmp_path: Path) -> None:
    """Each with its number, at its place."""
    code, line, text = WRONG[change]
    file = tmp_path / "m.yaml"
    file.write_text(SPEC.replace(*change))
    with pytest.raises(SourceError) as wrong:
        load_training(file)
    told = str(wrong.value)
    assert f"[{code}]" in told
    assert text in told
    assert f"m.yaml:{line}:" in told


def test_a_spec_names_factors_behind_the_weights(tmp_path: Path) -> None:
    """What is read is what a run merges, to the bit; other factors are refused at the file's
    name.
    """
    trainer = made(tmp_path)
    write_weights(
        tmp_path / "base.safetensors",
        {n: w for n, w in trainer.weights(False).items() if "lora" not in n},
    )
    trainer.step(**batch())
    trainer.save_factors(tmp_path / "lora.safetensors")
    base = base_spec(tmp_path)
    first = base.read_text()
    base.write_text(
        first.replace("{init: {seed: 1}}", "{file: [base.safetensors, lora.safetensors]}")
    )
    model = load(base)
    for name, array in trainer.weights().items():
        assert np.array_equal(model.weights[name], array), name
    base.write_text(first.replace("{init: {seed: 1}}", "lora.safetensors"))
    with pytest.raises(
        SourceError,
        match=r"base\.yaml:4:10: error: lora\.safetensors: "
        r"it has factors of 'key.weight'.*no file before",
    ):
        load(base)


@pytest.mark.parametrize(
    ("told", "shape", "problem"),
    [
        ('{"w": {"scale": NaN}}', (2, 2), "metadata of the factors of .w. are invalid"),
        ("[]", (2, 2), "not as written"),
        ('{"w": {"scale": 1, "transposed": 3}}', (2, 2), "are invalid"),
        ('{"w": {"scale": 1}}', (3, 2), "do not fit 'w'"),
        ('{"v": {"scale": 1}}', (2, 2), "no factors of 'v'"),
    ],
)
def test_factors_that_do_not_fit_a_file(
    told: str, shape: Any, problem: str, tmp_path: Path
) -> None:
    write_weights(tmp_path / "base.safetensors", {"w": np.zeros((2, 2), np.float32)})
    parts = {
        "w.lora_A.weight": np.zeros((1, shape[1]), np.float32),
        "w.lora_B.weight": np.zeros((shape[0], 1), np.float32),
    }
    tensors = {n: TensorSource(Type(DType.F32, a.shape), lambda a=a: a) for n, a in parts.items()}  # type: ignore[misc]
    write_tensors(tmp_path / "lora.safetensors", tensors, metadata={"lora": told})
    (tmp_path / "m.yaml").write_text(
        "xlac: 1\nmodel: m\nweights: {file: [base.safetensors, lora.safetensors]}\n"
        'inputs: {x: "f32[2]"}\ngraph:\n  w: {op: weight, type: "f32[2, 2]"}\n  y: w @ x\n'
        "outputs: [y]\n"
    )
    with pytest.raises(SourceError, match=rf"m\.yaml:3:36: error: lora\.safetensors: .*{problem}"):
        load(tmp_path / "m.yaml")
