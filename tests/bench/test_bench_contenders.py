"""`xlac bench` of several models and engines: rows, comparisons, CSV, plots, refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from xlac.cli import status
from xlac.debug.report.bars import TimeBar, svg, ticks

SPEC = 'xlac: 1\nmodel: {name}\ninputs: {{x: "f32[{size}]"}}\ngraph: {{y: exp(x)}}\noutputs: [y]\n'


@pytest.fixture
def specs(tmp_path: Path) -> list[str]:
    """A small model and one a thousand times as large."""
    files = []
    for name, size in (("small", 1000), ("large", 1_000_000)):
        file = tmp_path / f"{name}.yaml"
        file.write_text(SPEC.format(name=name, size=size))
        files.append(str(file))
    return files


def test_models_are_rows_that_are_compared(
    specs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, plot, out = tmp_path / "t.csv", tmp_path / "t.svg", tmp_path / "built"
    assert status(["build", specs[0], "-o", str(out)]) == 0
    files = ["--csv", str(table), "--plot", str(plot)]
    capsys.readouterr()
    assert status(["bench", *specs, str(out), "--seconds", "0.05", "--json", *files]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    names = [(row["model"], row["engine"]) for row in rows]
    assert names == [("small", "xlac cpu"), ("large", "xlac cpu"), ("small", "xlac cpu, built")]
    assert "comparison" not in rows[0]
    assert rows[1]["beside"] == "small, xlac cpu"
    assert rows[1]["comparison"]["verdict"] == "slower" and rows[1]["comparison"]["ratio"] > 10
    written = list(csv.DictReader(table.read_text().splitlines()))
    assert [float(row["median_us"]) for row in written] == [row["median_us"] for row in rows]
    assert written[0]["verdict"] == "" and written[1]["verdict"] == "slower"
    texts = [one.text for one in ElementTree.parse(plot).iter("{http://www.w3.org/2000/svg}text")]
    assert {"small, xlac cpu", "large, xlac cpu", "small, xlac cpu, built"} <= set(texts)


def test_text_names_what_is_compared(specs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["bench", *specs, "--seconds", "0.05"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("small, xlac cpu") and "us median" in said[0]
    assert any("beside small, xlac cpu: slower: " in line and "95 %" in line for line in said)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--against", "torch"], 3, "torch cannot run small: PyTorch runs .pt2 files alone"),
        (["--against", "onnxruntme"], 2, "onnxruntime"),
        (["--csv", "t.csv", "--baseline", "t.json"], 2, "--baseline is for one model"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    options: list[str],
    code: int,
    said: str,
    specs: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "t.json").write_text("{}")
    options = [str(tmp_path / one) if one.startswith("t.") else one for one in options]
    assert status(["bench", specs[0], "--seconds", "0.05", *options]) == code
    assert said in capsys.readouterr().err


def test_engines_are_rows(specs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    options = ["--against", "onnxruntime", "--seconds", "0.05", "--json"]
    assert status(["bench", specs[0], *options]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["engine"] for row in rows] == ["xlac cpu", "onnxruntime"]
    assert rows[1]["beside"] == "small, xlac cpu" and rows[1]["threads"] == rows[0]["threads"]


def test_artefacts_and_engines_do_not_go_together(
    specs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "built")
    assert status(["build", specs[0], "-o", out]) == 0
    assert status(["bench", out, "--against", "onnxruntime"]) == 2
    assert "is built already" in capsys.readouterr().err


def test_bars_show_names_as_text_and_lengths_to_scale() -> None:
    hostile = '<script>alert("1")</script>&amp;'
    drawn = svg([TimeBar(hostile, "a", 50, 40, 80), TimeBar("b", "b", 100, 90, 120)], hostile)
    space = "{http://www.w3.org/2000/svg}"
    tree = ElementTree.fromstring(drawn)
    assert [one.text for one in tree.iter(f"{space}title")] == [hostile]
    assert not list(tree.iter(f"{space}script"))
    first, second = (float(r.attrib["width"]) for r in tree.iter(f"{space}rect"))
    assert second == pytest.approx(2 * first, abs=0.2)
    fills = {rect.attrib["fill"] for rect in tree.iter(f"{space}rect")}
    assert len(fills) == 2


@pytest.mark.parametrize(
    ("longest", "step"), [(120.0, 20.0), (0.9, 0.1), (35_000.0, 10_000.0), (1.0, 0.2)]
)
def test_ticks_are_round(longest: float, step: float) -> None:
    found = ticks(longest)
    assert found[0] == 0 and found[1] == pytest.approx(step) and found[-1] <= longest
    assert 3 <= len(found) <= 10
