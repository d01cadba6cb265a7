"""`xlac build`: all or nothing, the same every time, stage by stage, with any names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xlac.cli import status

SPECS = Path(__file__).parents[2] / "specs"
DIGITS = str(SPECS / "digits.yaml")


def test_build_is_all_or_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert status(["build", DIGITS, "--dim", "batch=4", "-o", str(folder)]) == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["inputs"][0]["shape"] == [4, 64]
    assert status(["build", DIGITS, "--dim", "batch=5", "-o", str(folder)]) == 0
    assert json.loads((folder / "manifest.json").read_text())["inputs"][0]["shape"] == [5, 64]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    assert status(["build", DIGITS, "-o", str(tmp_path / "other")]) == 2
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["other", "out"]
    assert (tmp_path / "other" / "thesis.txt").read_text() == "mine"


def test_an_interrupted_build_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import xlac.artefact.writer

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(xlac.artefact.writer, "describe", interrupted)
    assert status(["build", DIGITS, "-o", str(tmp_path / "out")]) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_resource_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import xlac.artefact.writer

    def full(*args: object) -> None:
        raise OSError(28, os.strerror(28), "weights.safetensors")

    monkeypatch.setattr(xlac.artefact.writer, "describe", full)
    assert status(["build", DIGITS, "-o", str(tmp_path / "out")]) == 4
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_dump_until_and_from_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["build", DIGITS, "--until", "expand"]) == 0
    graph = tmp_path / "expanded.graph"
    graph.write_text(capsys.readouterr().out)
    going_on = ["--from", "simplify-2", "--graph", str(graph)]
    a, b = tmp_path / "a", tmp_path / "b"
    assert (
        status(
            [
                "build",
                DIGITS,
                *going_on,
                "--emit",
                "ll,o",
                "-o",
                str(a),
                "--dump",
                str(tmp_path / "dump"),
            ]
        )
        == 0
    )
    assert status(["build", DIGITS, "--emit", "ll,o", "-o", str(b)]) == 0
    for name in ("digits.ll", "digits.o"):
        assert (a / name).read_bytes() == (b / name).read_bytes()
    assert {"fused.txt", "kernels.txt", "memory.txt", "passes.txt"} <= {
        p.name for p in (tmp_path / "dump").iterdir()
    }


def test_build_is_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        code = (
            f"from xlac.cli import status; status(['build', {DIGITS!r}, '--target', 'c', '-o', "
            f"{str(tmp_path / name)!r}])"
        )
        environment = {**os.environ, "PYTHONHASHSEED": "1" if name == "a" else "2"}
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env=environment
        )
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.parametrize(
    "name",
    ["int", 'a b"c', "}}{{", "{% raw %}", "naïve π", "*/ evil", "😀", "main", "a.b", "../up"],
)
@pytest.mark.sampled(12)
def test_names_that_no_c_compiler_likes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C keywords, quotes, templates and other scripts as names, through all targets."""
    spec = tmp_path / "spec.yaml"
    quoted = [json.dumps(name + tail, ensure_ascii=False) for tail in ("", "1", "2", "3")]
    spec.write_text(
        f"xlac: 1\nmodel: {quoted[0]}\ninputs: {{{quoted[0]}: 'f32[3, 5]'}}\nweights: {{init: "
        "{}}\n"
        f"graph:\n  {quoted[1]}: {{op: linear, in: {quoted[0]}, units: 4}}\n"
        f"  {quoted[2]}: {{op: softmax, in: {quoted[1]}, axis: -1}}\noutputs: {{{quoted[3]}: "
        f"{quoted[2]}}}\n",
        encoding="utf-8",
    )
    targets = ("reference", "c", "cpu")
    for target in targets:
        assert status(["run", str(spec), "-t", target]) == 0, capsys.readouterr().err
        assert status(["build", str(spec), "-t", target, "-o", str(tmp_path / target)]) == 0, (
            capsys.readouterr().err
        )
        assert all(f.name.isascii() and " " not in f.name for f in (tmp_path / target).iterdir())
    assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {*targets}, (
        "nothing is written elsewhere"
    )


def test_what_reaches_generated_text_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bert_layer", "resnet50"):
        assert (
            status(["inspect", str(SPECS / f"{name}.yaml"), "--stage", "source", "--target", "c"])
            == 0
        )
        assert capsys.readouterr().out.isascii()
