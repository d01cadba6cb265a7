"""The folder of `xlac build --dump` as a page, and the times of stages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.debug.report.document import SCHEMA
from xlac.debug.report.stage_times import MOST, StageTimes
from xlac_sdk.support.limits import checkpoint, telling

SPEC = """\
xlac: 1
model: two
inputs: {x: "f32[24, 64]", w: "f32[64, 48]"}
graph: {p: "matmul(x, w)", y: "softmax(p + 1, axis=-1)"}
outputs: [y]
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "two.yaml"
    file.write_text(SPEC)
    return str(file)


@pytest.fixture
def dumped(spec: str, tmp_path: Path) -> Path:
    folder = tmp_path / "dump"
    assert status(["build", spec, "-o", str(tmp_path / "out"), "--dump", str(folder)]) == 0
    return folder


def test_a_dump_is_shown_as_the_report_of_the_model(
    spec: str, dumped: Path, tmp_path: Path
) -> None:
    """The document of the folder is that of a report in which nothing is measured, but for times
    of compiling.
    """
    from_dump, from_model = tmp_path / "a.json", tmp_path / "b.json"
    page = tmp_path / "a.html"
    assert status(["report", str(dumped), "-o", str(page), "--json", str(from_dump)]) == 0
    html = str(tmp_path / "b.html")
    assert status(["report", spec, "--no-run", "-o", html, "--json", str(from_model)]) == 0
    one, other = (json.loads(file.read_text()) for file in (from_dump, from_model))
    for document in (one, other):
        document.pop("stages")
        for each in document["passes"]:
            each.pop("seconds")
    assert one == other and one["schema"] == SCHEMA
    assert "default-src 'none'" in page.read_text()


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "is not a report: "), ("[]", "is not a report of"), ('{"schema": 1}', "again, with")],
)
def test_a_damaged_dump_is_refused(
    text: str, said: str, dumped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dumped / "report.json").write_text(text)
    assert status(["report", str(dumped)]) == 2
    told = capsys.readouterr().err
    assert "XL3018" in told and said in told


def test_options_about_compiling_are_refused_for_a_dump(
    dumped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["report", str(dumped), "--threads", "2"]) == 2
    assert "--threads is for models" in capsys.readouterr().err


def test_timing_is_a_tree_of_stages_passes_and_kernels(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert status(["build", spec, "-o", out, "--timing"]) == 0
    rows = re.findall(r"^(.*?) +([\d.]+) s +[\d.]+ %$", capsys.readouterr().err, re.MULTILINE)
    names = [name for name, _ in rows]
    stages = {"reading the spec", "passes", "  expand", "fusion", "the kernels", "the artefact"}
    assert stages <= {*names} and names[-1] == "in all"
    assert names.index("  dot_0") > names.index("the kernels") > names.index("passes")
    whole = sum(float(seconds) for name, seconds in rows[:-1] if name[0] != " ")
    assert whole == pytest.approx(float(rows[-1][1]), abs=2e-3)


def test_the_slowest_kernels_are_listed_and_the_others_counted() -> None:
    entries = [(f"kernel k{i}", float(i)) for i in range(MOST + 5)]
    stage = StageTimes([("the kernels", 1.0), *entries]).stages()["the kernels"]
    assert stage["seconds"] == 1.0 + sum(range(MOST + 5))
    assert stage["inside"][0] == {"name": f"k{MOST + 4}", "seconds": MOST + 4.0}
    assert stage["inside"][-1] == {"name": "5 more", "seconds": 10.0}


def test_the_scope_around_is_told_too() -> None:
    heard: list[str] = []
    with telling(heard.append), StageTimes().watching("first"):
        checkpoint("second")
    assert heard == ["first", "second"]
