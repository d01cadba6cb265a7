"""Mistakes in a spec's section `train`, each with its number and its place; what a check says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_training_trainer import SPEC, made

import xlac
from xlac.cli import status
from xlac.spec.load import load_training
from xlac.training.program import graphs_of
from xlac_sdk.source import SourceError, UnsupportedError

WRONG = {
    "loss: out": ("XL2009", "the loss is f32"),
    "loss: mean(x)": ("XL2045", "depends on no weight"),
    "loss: mean(round(out))": ("XL2045", "by every weight that learns is 0"),
    "optimizer: {sgd: {}}": ("XL2007", "needs 'lr'"),
    "optimizer: {sgd: {lr: -1.0}}": ("XL1012", "at least 0"),
    "optimizer: {sgd: {lr: {cosine: {}}}}": ("XL2007", "needs 'peak'"),
    "optimizer: {sgd: {lr: {cosin: {peak: 1}}}}": ("XL2001", "cosine"),
    "optimizer: {sgd: {lr: 0.1, momentun: 0.9}}": ("XL2005", "momentum"),
    "optimizer: {sgd: {lr: 0.1, nesterov: 3}}": ("XL1012", "true or false"),
    'groups: {"q.*": {lr: 0.1}}': ("XL3011", "fits no weight that learns"),
    "groups: {out.bias: {decay: 0.1}}": ("XL2005", "known: dampening, lr, momentum, nesterov,"),
    'wrt: ["q*"]': ("XL3011", "fits no weight that can learn"),
    "frozen_mode: [q]": ("XL3011", "fits no node"),
    "batch: size": ("XL2004", "no open size"),
    "clip: {}": ("XL1012", "norm or value"),
    "clip: {norm: 0}": ("XL1012", "more than 0"),
    "metrics: {loss: mean(x)}": ("XL1021", "always reported"),
    "metrics: {validate_loss: mean(x)}": ("XL1021", "always reported"),
}


@pytest.mark.parametrize("line", WRONG)
def test_mistakes(line: str, tmp_path: Path) -> None:
    """Each with its number, at its place."""
    key = line.partition(":")[0]
    kept = [
        one
        for one in SPEC.format(optimizer="{sgd: {lr: 0.1}}", more="").splitlines()
        if not one.startswith(f"  {key}:") or "linear" in one
    ]
    file = tmp_path / "m.yaml"
    file.write_text("\n".join([*kept, f"  {line}", ""]))
    code, text = WRONG[line]
    with pytest.raises(SourceError) as wrong:
        graphs_of(*load_training(file))
    told = str(wrong.value)
    assert f"[{code}]" in told
    assert text in told
    assert f"m.yaml:{len(kept) + 1}:" in told


def test_what_has_no_derivative_is_named_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SPEC.replace("d: dropout(relu(h), p=0.4)", "d: polygamma(h, h)")
    with pytest.raises(UnsupportedError, match=r"(?s)m\.yaml:8:.*has no derivative.*XL2042"):
        made(tmp_path, text=text)
    assert status(["check", str(tmp_path / "m.yaml")]) == 3  # as for all that is unsupported
    assert "XL2042" in capsys.readouterr().err


def test_a_spec_without_the_section_says_so(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(SPEC.partition("train:")[0].replace("{{", "{").replace("}}", "}"))
    with pytest.raises(SourceError, match="XL5031"):
        xlac.trainer(file)


def test_check_says_what_learns_and_what_a_step_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(SPEC.format(optimizer="{adamw: {lr: 0.1}}", more='wrt: ["out.*"]'))
    assert status(["check", "--json", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)["training"]
    assert told["learns"] == {"tensors": 2, "parameters": 24}
    assert told["frozen"] == ["h.bias", "h.weight"]
    assert told["bytes"]["weights"] == 24 * 4
    assert told["bytes"]["step"] > 0
    assert status(["check", "-q", str(file)]) == 0
    learns = "learns      24 parameters in 2 tensors by adamw; frozen: h.bias"
    assert learns in capsys.readouterr().out


def test_files_outside_of_the_folder_need_permission(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    model, _, section = SPEC.format(optimizer="{sgd: {lr: 0.1}}", more="").partition("train:")
    (tmp_path / "model.yaml").write_text(model)
    (inner / "m.yaml").write_text(f"xlac: 1\ninclude: [../model.yaml]\ntrain:{section}")
    with pytest.raises(SourceError, match="XL3002"):
        xlac.trainer(inner / "m.yaml")
    assert xlac.trainer(inner / "m.yaml", allow_outside=True).metrics == ("loss", "accuracy")


def test_options_that_compile_lacks(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(SPEC.format(optimizer="{sgd: {lr: 0.1}}", more=""))
    with pytest.raises(TypeError, match="unexpected keyword argument 'chekced'"):
        xlac.trainer(tmp_path / "m.yaml", chekced="bounds")
    trainer = xlac.trainer(tmp_path / "m.yaml", checked="bounds")
    assert trainer.metrics == ("loss", "accuracy")
