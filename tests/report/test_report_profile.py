"""`xlac profile` as a page and as CSV."""

from __future__ import annotations

import base64
import csv
import json
import re
import zlib
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.debug.report.page import page

SPEC = """\
xlac: 1
model: two
inputs: {x: "f32[24, 64]", w: "f32[64, 48]"}
graph: {p: "matmul(x, w)", y: "softmax(p + 1, axis=-1)"}
outputs: [y]
"""


def test_a_profile_is_a_page_of_the_same_times_that_opens_at_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, html, table = tmp_path / "two.yaml", tmp_path / "p.html", tmp_path / "p.csv"
    spec.write_text(SPEC)
    files = ["--html", str(html), "--csv", str(table)]
    assert status(["profile", str(spec), "--seconds", "0.02", "--json", *files]) == 0
    told = json.loads(capsys.readouterr().out)
    text = html.read_text()
    assert '<body data-opens="time">' in text and "default-src 'none'" in text
    packed = re.search(r'id="document">([^<]+)<', text)
    assert packed
    document = json.loads(zlib.decompress(base64.b64decode(packed[1])))
    steps = document["times"]["steps"]
    assert [(s["kernel"], s["seconds"]) for s in steps] == [
        (k["kernel"], k["seconds"]) for k in told["kernels"]
    ]
    assert document["passes"] and any(s["name"] == "passes" for s in document["stages"])
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [float(row["seconds"]) for row in rows] == [k["seconds"] for k in told["kernels"]]
    values = [row["computes"].split() for row in rows]
    assert {"p", "y"} <= {one for row in values for one in row}
    assert all(len(row) == len({*row}) for row in values)


def test_other_pages_open_at_the_overview() -> None:
    document = {"model": {"name": "m"}}
    assert '<body data-opens="overview">' in page(document)
    assert 'data-opens="&quot;&gt;"' in page(document, opens='">')
