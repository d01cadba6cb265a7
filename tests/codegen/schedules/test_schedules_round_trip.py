"""All schedules of a model, written by `xlac inspect` and given back, make the same kernels."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from shipped import FOLDER

from xlac.cli import status

X86 = ("--triple", "x86_64-unknown-linux-gnu")
FACTS = {
    "sse2": ("--target", "cpu", "--cpu", "x86-64", *X86),
    "avx512": ("--target", "cpu", "--cpu", "x86-64-v4", *X86, "--threads", "4"),
    "c": ("--target", "c"),
    "ampere": ("--target", "cuda", "--arch", "sm_80"),
    "hopper": ("--target", "cuda", "--arch", "sm_90a"),
}
SPECS = {
    "mobilenet_v2": (),
    "resnet50": (),
    "bert_layer": (),
    "gpt2_decode": (),
    "lstm_3x60": (),
    "digits": ("--dim", "batch=64"),
    "tagger": (),
    "softmax": (),
    "loop_scan": (),
}


@pytest.mark.parametrize("facts", FACTS)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.sampled(50)
def test_schedules_that_are_given_back_make_the_same_kernels(
    spec: str, facts: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def inspected(stage: str, *more: str) -> str:
        arguments = ["inspect", str(FOLDER / f"{spec}.yaml"), "--stage", stage, *FACTS[facts]]
        assert status([*arguments, *SPECS[spec], *more]) == 0
        return capfd.readouterr().out

    file, made = tmp_path / "schedules.yaml", inspected("schedules")
    file.write_text(made, encoding="utf-8")
    given = ("--schedule", str(file))
    assert "template:" in made and inspected("schedules", *given) == made
    assert digest(inspected("kernels", *given)) == digest(inspected("kernels"))


def digest(text: str) -> str:
    """Of text too long to show."""
    return hashlib.sha256(text.encode()).hexdigest()
