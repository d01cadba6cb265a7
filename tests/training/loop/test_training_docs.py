"""The chapter on training: its commands are read, its program runs, its options are all there."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli.commands.train import command
from xlac.diagnostics import catalogue

ROOT = Path(__file__).parents[3]
CHAPTER = (ROOT / "docs" / "TRAINING.md").read_text("utf-8")
LINES = [
    line.partition("#")[0]
    for page in ("docs/TRAINING.md", "README.md")
    for line in (ROOT / page).read_text("utf-8").splitlines()
    if line.startswith("xlac train ")
]


@pytest.mark.parametrize("line", LINES)
def test_commands_can_be_read(line: str) -> None:
    words = shlex.split(line)[2:]
    context = command.make_context("train", words)
    for word in words:
        if word.startswith("specs/"):
            assert (ROOT / word).exists()
    assert context.params["data"] or context.params["resume"]


def test_the_chapter_has_the_options_of_a_run() -> None:
    names = (
        "data validate columns resize epochs max_steps batch drop_last shuffle seed resume best "
        "patience keep checkpoint_every tensorboard"
    )
    own = set(names.split())
    for option in command.params:
        if option.name in own:
            own.remove(option.name)
            assert any(text in CHAPTER for text in (*option.opts, *option.secondary_opts)), option
    assert not own
    assert all(f"XL63{n:02}" in catalogue() for n in (*range(1, 13), *range(31, 39)))


def test_its_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").symlink_to(ROOT / "specs")
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    (tmp_path / "program.py").write_text(program)
    assert runpy.run_path("program.py")["run"].steps == 90
    assert (tmp_path / "run" / "weights.safetensors").exists()


def test_its_model_with_state_learns(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if "state:" in block)
    (tmp_path / "m.yaml").write_text(text)
    trainer = xlac.trainer(tmp_path / "m.yaml", target="reference")
    assert trainer.carries == ("h",)
    given = {name: np.ones(type.shape, np.float32) for name, type in trainer.inputs.items()}
    losses = [trainer.step(**given)["loss"] for _ in range(3)]
    assert losses[2] < losses[1] < losses[0] and trainer.state()["h"].any()
