"""Hand-written kernels of specs that train: the permission reaches every entry."""

from __future__ import annotations

from pathlib import Path

import pytest
from custom_ops import SPEC, written

from xlac.cli import status as main

TRAIN = SPEC.replace('w: "f32[6]"', 't: "f32[4, 6]", w: "f32[6]"').replace(
    'graph: {y: "gated(x + 1, w, slope=2) * 3"}\noutputs: [y]',
    """weights: {init: {seed: 0}}
graph:
  h: {op: linear, in: x, units: 6}
  y: gated(h, w, slope=2)
outputs: [y]
train: {loss: mean((y - t) * (y - t)), optimizer: {sgd: {lr: 0.01}}}""",
)
COMMANDS = {"build": ["--emit", "c,h", "-o", "out"], "check": []}


@pytest.mark.parametrize("command", COMMANDS)
def test_specs_that_train_need_the_permission_and_take_it(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = [command, str(written(tmp_path, "c", spec=TRAIN)), "--target", "c", *COMMANDS[command]]
    assert main(asked) != 0
    assert "XL3032" in capsys.readouterr().err
    for option in ("--allow-kernels", "--no-kernels"):
        assert main([*asked, option]) == 0, capsys.readouterr().err
        if command == "build":
            text = Path("out/own.c").read_text()
            is_called = '#line 1 "gated.c"' in text
            assert is_called == (option == "--allow-kernels")
            assert "own_step" in text
