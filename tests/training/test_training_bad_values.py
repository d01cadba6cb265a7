"""Numbers of the section `train`: every option has bounds, said with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_training_several import GAN, SHARED

from xlac.spec.load import load_training
from xlac.spec.training.rates import built_in
from xlac.training.program import graphs_of
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
model: m
weights: {init: {seed: 0}}
dims: {batch: {max: 64}}
inputs: {x: "f32[batch, 4]", label: "i32[batch]"}
graph:
  h: {op: linear, in: x, units: 3}
outputs: [h]
train:
  batch: batch
  loss: mean(cross_entropy(h, label))
"""
SGD = "  optimizer: {sgd: {lr: 0.1}}\n"
BAD: dict[str, tuple[str, ...]] = {
    "clip: {norm: %s}": ("0", "-1", ".nan", ".inf", "1e308", "1e-320", "true", "x"),
    "clip: {value: %s}": ("0", "-1", ".nan", ".inf", "1e308", "1e-320"),
    "accumulate: %s": ("0", "-1", "1.5", "1048577", "99999999999999999999", "true"),
    "seed: %s": ("-1", "9223372036854775808", "0.5"),
    "compute: bf16\n  loss_scale: %s": ("0", "-1", ".nan", ".inf", "1e308", "1e-320", "true"),
    "loss_scale: {growth: %s}": ("1", "0", ".inf", ".nan", "1e308"),
    "loss_scale: {backoff: %s}": ("0", "1", ".nan", "1e-320"),
    "loss_scale: {interval: %s}": ("0", "-1", "1.5", "9223372036854775808"),
    "ema: {decay: %s}": (
        "-0.1",
        "1",
        ".nan",
        "step",
        "step / 1000",
        "1 / step",
        "0 - 0.5 * step",
        "log(step)",
    ),
    "ema: {after: %s}": ("-1", "9223372036854775808", "0.5"),
    "ema: {every: %s}": ("0", "-1", "9223372036854775808"),
    'lora: {"h.weight": {rank: 2, alpha: %s}}': ("0", "-1", ".nan", ".inf", "1e308"),
    'lora: {"h.weight": {rank: 2, dropout: %s}}': ("1", "-0.1", ".nan"),
    "metrics: {a: {sum: sum(x), count: %s}}": ("0", "-1", ".nan", ".inf", "true", "0.0", "1 - 1"),
    "metrics: {a: %s}": (".nan", ".inf", "nan"),
}
RATES = ("-1", ".nan", ".inf", "1e308", "true", "nan", "1 / step", "1 - step", "log(step)")
NUMBERS = (".nan", ".inf", "-.inf", "1e308", "x", "true", "[]", "{}")


def wrong(folder: Path, section: str) -> str:
    """What is said of a section's lines after the loss."""
    file = folder / "m.yaml"
    file.write_text(SPEC + section)
    with pytest.raises(SourceError) as found:
        graphs_of(*load_training(file))
    for one in found.value.diagnostics:
        assert one.span is not None
        assert Path(str(one.span.file)).name == "m.yaml", one
        assert one.span.line > 11, one
    return str(found.value)


@pytest.mark.parametrize("option", BAD)
@pytest.mark.sampled(6)
def test_an_option_has_bounds(option: str, tmp_path: Path) -> None:
    for value in BAD[option]:
        wrong(tmp_path, SGD + f"  {option % value}\n")


@pytest.mark.parametrize("value", RATES)
@pytest.mark.sampled(6)
def test_a_rate_is_a_number_of_at_least_0(value: str, tmp_path: Path) -> None:
    assert "a learning rate is" in wrong(tmp_path, f"  optimizer: {{sgd: {{lr: {value}}}}}\n")


def _parameters() -> list[tuple[str, str]]:
    """Every number of optimizers and rates: the line that gives it, with room for both."""
    found = built_in()
    texts = {"adjust_lr_fn", "amsgrad", "centered", "decoupled_weight_decay", "lr", "nesterov"}
    made = [
        ("optimizer: {" + name + ": {lr: 0.1, KEY: VALUE}}", key)
        for name, one in found.optimizers.items()
        for key in one.spec.params
        if key not in texts
    ]
    for name, one in found.rates.items():
        first, *others = one.spec.params
        beside = ", every: 9" if name == "step" else ""
        for key in others:
            known = "" if key == "every" else beside
            text = f"optimizer: {{sgd: {{lr: {{{name}: {{{first}: 0.1{known}, KEY: VALUE}}}}}}}}"
            made.append((text, key))
    return made


@pytest.mark.parametrize(("text", "key"), _parameters())
@pytest.mark.sampled(12)
def test_parameters_are_finite_numbers(text: str, key: str, tmp_path: Path) -> None:
    section = f"  wrt: ['*.weight']\n  {text}\n".replace("KEY", key)
    for value in (*NUMBERS, *(["-1"] if key != "beta2_decay" else ["1"])):
        if key != "dampening" or value != "-1":
            wrong(tmp_path, section.replace("VALUE", value))


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        (
            "adam: {betas: [0.9, 1.0]}",
            "14:19",
            "betas are at least 0 and less than 1, found [0.9, 1.0]",
        ),
        ("sgd: {lr: 0.1, nesterov: true}", "14:5", "nesterov needs a momentum"),
        ("adafactor: {d: 0.5}", "14:20", "d is at least 1, found 0.5"),
        ("sgd: {lr: {step: {initial: 1.0, every: 0}}}", "14:44", "every is more than 0, found 0"),
        ("sgd: {lr: {cosine: {peak: 0.0}}}", "14:31", "peak is more than 0, found 0.0"),
        ("sgd: {lr: {one_cycle: {peak: 1.0, divide: 1.0e-320}}}", "14:5", "optimizer 'sgd'"),
    ],
)
def test_where_a_parameter_is_wrong(text: str, place: str, told: str, tmp_path: Path) -> None:
    found = wrong(tmp_path, f"  wrt: ['*.weight']\n  optimizer:\n    {text}\n")
    assert f"m.yaml:{place}: " in found
    assert told in found


def test_what_is_usual_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    for section in (
        "  optimizer: {radam: {betas: [0.9, 0.6]}}\n",
        (
            "  optimizer: {sgd: {lr: 0.1 / (1 + step), momentum: 0.9, nesterov: "
            "true}}\n  ema: {decay: '1 - 1 / (step + 1)'}\n"
        ),
        "  optimizer: {sgd: {lr: 0}}\n  accumulate: 4\n  clip: {norm: 1}\n",
    ):
        file.write_text(SPEC + section)
        step = graphs_of(*load_training(file)).step
        assert step.graph.outputs


def _numbers(trainer: Any) -> None:
    for bad in (float("nan"), -1, float("inf"), 1e39, "x"):
        with pytest.raises(SourceError, match="a number of at least 0"):
            trainer.set_rate(bad)
        with pytest.raises(SourceError, match="a number of at least 0"):
            trainer.set_length(bad)


def test_rates_that_are_set(tmp_path: Path) -> None:
    from xlac.training.trainer import Trainer

    file = tmp_path / "m.yaml"
    file.write_text(SPEC + SGD)
    trainer = Trainer(file, target="reference")
    _numbers(trainer)
    assert trainer.state()["optimizer.lr"] == pytest.approx(0.1)


OF_SEVERAL = {
    ("  losses:", "  loss: mean(fake)\n  losses:"): ("XL2005", 17, "its own 'loss'"),
    ("  losses:", "  clip: {norm: 1.0}\n  losses:"): ("XL2005", 17, "its own 'clip'"),
    ("  losses:", "  order: parallel\n  losses:"): ("XL1012", 17, "in_turn, together"),
    ("mean(softplus(-on_fake))\n", "on_fake\n"): ("XL2009", 24, "the loss is f64[batch]"),
    ("mean(softplus(-on_fake))\n", "mean(real)\n"): (
        "XL2045",
        24,
        "depends on no weight that learns",
    ),
    ('["up.*", "fake.*"]', '["q*"]'): ("XL3011", 25, "fits no weight that can learn"),
    ("{norm: 0.5}", "{}"): ("XL1012", 22, "norm or value"),
    ("{sgd: {lr: 0.05, momentum: 0.9}}", "{sgd: {momentum: 0.9}}"): ("XL2007", 26, "needs 'lr'"),
    ('      wrt: ["first.*"', '      wrd: ["first.*"'): ("XL1010", 20, "did you mean 'wrt'?"),
    ("{right: ", "{generator: "): ("XL1021", 28, "always reported"),
    ("{right: ", "{finite: "): ("XL1021", 28, "always reported"),
    ("{right: ", "{seconds: "): ("XL1021", 28, "always reported"),
    ("    discriminator:", "    step:"): ("XL1021", 18, "'step' is always reported"),
}


@pytest.mark.parametrize("change", OF_SEVERAL)
def test_mistakes_of_several_losses(change: tuple[str, str], tmp_path: Path) -> None:
    """Each with its number, at its place."""
    code, line, text = OF_SEVERAL[change]
    told = refused(tmp_path, GAN.replace(*change))
    assert f"[{code}]" in told
    assert text in told
    assert f"m.yaml:{line}:" in told


def test_mistakes_of_several_losses_as_a_whole(tmp_path: Path) -> None:
    told = refused(tmp_path, SHARED.format(order="together"))
    assert "m.yaml:13:5: error: 'out.weight' learns from 'near' already" in told
    assert "[XL2047]" in told
    plain = "\n".join(
        line for line in GAN.splitlines() if line[:4] != "    " and "losses" not in line
    )
    told = refused(tmp_path, plain.replace("batch: batch\n", "batch: batch\n  order: in_turn\n"))
    assert "missing key 'loss' in 'train'" in told
    assert "missing key 'optimizer' in 'train'" in told
    assert "order is for several losses" in told


def refused(folder: Path, text: str) -> str:
    file = folder / "m.yaml"
    file.write_text(text)
    with pytest.raises(SourceError) as wrong:
        load_training(file)
    return str(wrong.value)
