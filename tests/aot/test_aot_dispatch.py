"""One artefact for several x86-64 processors: it asks the one it runs on."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from packages import SPECS, agree, build

import xlac
from xlac.cli import status
from xlac_sdk.host.capi import opened

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="it asks an x86-64 processor"
)
DIGITS = str(SPECS / "digits.yaml")
ALL = "x86-64,x86-64-v2,x86-64-v3,x86-64-v4"


@pytest.mark.parametrize("spec", ["digits", "lstm_3x60", "softmax"])
@pytest.mark.parametrize("cpus", [ALL, "x86-64,x86-64-v3"])
@pytest.mark.sampled(12)
@pytest.mark.long
def test_the_variants_are_one_model(spec: str, cpus: str, tmp_path: Path) -> None:
    model = xlac.load(build(spec, tmp_path / "out", "--cpu", cpus))
    agree(spec, model)
    assert [facts["cpu"] for facts in model.manifest.provenance.machines] == cpus.split(",")


def test_weights_that_variants_share_are_there_once(tmp_path: Path) -> None:
    """Those of v2 and v1 are laid out alike: registers are as wide."""
    one = (
        build("digits", tmp_path / "one", "--cpu", "x86-64", "--weights", "file") / "digits.weights"
    )
    two = (
        build("digits", tmp_path / "two", "--cpu", "x86-64,x86-64-v2", "--weights", "file")
        / "digits.weights"
    )
    assert two.stat().st_size == one.stat().st_size


@pytest.mark.parametrize(
    ("cpus", "told"),
    [
        ("x86-64-v3,x86-64-v2", "from the least to the most"),
        ("x86-64-v3,x86-64-v3", "each once"),
        ("x86-64,skylake", "like 'skylake'"),
        ("x86-64,skylakee", "did you mean 'skylake'"),
        ("x86-64,", "XL5"),
    ],
)
def test_lists_that_nothing_can_choose_from(
    cpus: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["build", DIGITS, "--cpu", cpus, "-o", str(tmp_path / "out")]) in (2, 3)
    assert told in capsys.readouterr().err
    assert status(
        ["build", DIGITS, "--cpu", cpus, "--target", "reference", "-o", str(tmp_path / "out")]
    ) in (2, 3)


def test_a_lesser_processor_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An artefact for processors that this one is not, as one without AVX2 would see it."""
    folder = build("digits", tmp_path / "out", "--cpu", "x86-64-v3")
    xlac.load(folder)
    monkeypatch.setattr(opened, "features", lambda: {"sse4_2", "fma"})
    with pytest.raises(xlac.UnsupportedError, match=r"XL5109.*\n.*--cpu x86-64-v2"):
        xlac.load(folder)
    xlac.load(build("digits", tmp_path / "both", "--cpu", "x86-64-v2,x86-64-v3"))
