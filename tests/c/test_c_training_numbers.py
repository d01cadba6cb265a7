"""Numbers that callers set between steps, in C and in native code: what is no rate is refused, and
changes nothing; so in Python.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from c_harness import SPECS, build
from c_learner import Learner, flat

import xlac
from xlac_sdk.source import SourceError

BAD_NUMBER = 14
LARGEST = float(np.finfo(np.float32).max)
WRONG = (float("nan"), float("inf"), float("-inf"), -1.0, -1e-300, 1e300)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Digits with a rate that covers the run, and a group whose rate is four times as large."""
    made = tmp_path_factory.mktemp("groups") / "digits_train.yaml"
    for file in ("digits.yaml", "digits.safetensors"):
        (made.parent / file).symlink_to(SPECS / file)
    text = (SPECS / "digits_train.yaml").read_text()
    section = (
        "  optimizer: {adamw: {lr: {cosine: {peak: 0.5}}}}\n"
        '  groups: {"*.bias": {lr: {cosine: {peak: 2.0}}}}\n'
    )
    made.write_text(text[: text.index("  optimizer:")] + section)
    return made


@pytest.mark.parametrize("target", ["c", "cpu"])
def test_what_is_no_rate_is_refused(spec: Path, target: str, tmp_path: Path) -> None:
    options = ("--target", target, "--allow-outside", "--dim", "batch=4")
    more = ("--emit", "c,h") if target == "c" else ()
    learner = Learner(build(str(spec), tmp_path / "out", *options, *more), "digits_train")
    before = flat(learner.state())
    for function in ("set_lr", "set_length"):
        for wrong in WRONG:
            assert learner(function, ctypes.c_double(wrong)) == BAD_NUMBER, (function, wrong)
        assert flat(learner.state()) == before
    assert learner("set_lr", ctypes.c_double(LARGEST / 2)) == BAD_NUMBER  # the group's is infinite
    assert flat(learner.state()) == before
    for right in (0.0, -0.0, 1e-320, LARGEST / 4):
        assert learner("set_lr", ctypes.c_double(right)) == 0
        rates = [learner.state()[f"optimizer.lr{end}"].view(np.float32)[0] for end in ("", ".1")]
        assert rates == [np.float32(right), np.float32(right * 4)]
    assert learner("set_length", ctypes.c_double(LARGEST)) == 0


def test_so_does_a_trainer(spec: Path) -> None:
    trainer = xlac.trainer(spec, target="reference", allow_outside=True)
    before = flat(trainer.state())
    for wrong in (*WRONG, LARGEST / 2):
        with pytest.raises(SourceError, match="XL6051"):
            trainer.set_rate(wrong)
    assert flat(trainer.state()) == before
    trainer.set_rate(LARGEST / 4)
    assert trainer.state()["optimizer.lr.1"] == LARGEST
