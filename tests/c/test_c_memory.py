"""--max-memory: what counts, and what a message lists when it cannot be met."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_harness import SPECS

from xlac.cli import status
from xlac.memory.limit import parse
from xlac_sdk.source import SourceError

LSTM = str(SPECS / "lstm_3x60.yaml")


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("4096", 4096),
        ("64K", 65536),
        ("1.5M", 1572864),
        ("2 ", 2),
        ("1kB", 1024),
        ("3GiB", 3 << 30),
    ],
)
def test_amounts(text: str, nbytes: int) -> None:
    assert parse(text) == nbytes


@pytest.mark.parametrize("text", ["", "K", "-1", "1e9", "6x", "1 K", "1.K", "9" * 30])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(SourceError, match="not an amount of memory"):
        parse(text)


def test_a_limit_that_is_met(tmp_path: Path) -> None:
    assert (
        status(["build", LSTM, "--target", "c", "-o", str(tmp_path / "out"), "--max-memory", "35K"])
        == 0
    )


@pytest.mark.parametrize("target", ["c", "cpu"])
def test_a_limit_that_cannot_be_met_names_the_tensors(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        status(
            ["build", LSTM, "--target", target, "-o", str(tmp_path / "out"), "--max-memory", "30K"]
        )
        == 4
    )
    said = capsys.readouterr().err
    assert "more than the 30,720 allowed" in said and "'rnn.layer.0.gates' f32[32, 1, 240]" in said
    listed = [int(line.split()[0].replace(",", "")) for line in said.splitlines() if " B  " in line]
    assert listed == sorted(listed, reverse=True) and sum(listed) > 30720
    assert not (tmp_path / "out").exists()


def test_weights_count_unless_they_are_in_the_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["build", LSTM, "--target", "c", "-o", str(tmp_path / "out"), "--max-memory", "100K"]
    assert status([*given, "--weights", "incbin"]) == 0
    assert status([*given, "--weights", "file"]) == 4
    assert "(weights)" in capsys.readouterr().err
