"""The run of `make verify-models`: verdicts, crashes, and what is not verified again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import xlac

sys.path.insert(0, str(Path(__file__).parent))

from models import Results, models, summary, verdict, verify_all

FAKE = """
import json, os, sys, time
sys.stdin.readline()
for line in sys.stdin:
    file = json.loads(line)["file"]
    if file == "crashes":
        os.abort()
    if file == "hangs":
        time.sleep(60)
    why = "XL5005" if file == "refused" else ""
    print(json.dumps({"verdict": file, "why": why, "text": "so"}), flush=True)
"""


def test_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "xlac: 1\nmodel: m\ninputs: {x: 'f32[2]'}\ngraph: {y: exp(x)}\noutputs: [y]\n"
    spec = tmp_path / "m.yaml"
    spec.write_text(text)
    assert verdict(str(spec))["verdict"] == "right"
    spec.write_text(text.replace("exp", "exq"))
    refused = verdict(str(spec))
    assert refused["verdict"] == "refused" and refused["why"].startswith("XL2")
    monkeypatch.setattr(xlac, "verify", lambda *args, **named: 1 / 0)
    assert verdict(str(spec))["why"] == "ZeroDivisionError"


def test_what_is_verified_is_kept_and_not_verified_again(tmp_path: Path) -> None:
    file, lines = tmp_path / "out" / "results.jsonl", list[str]()
    results = Results(file, "this")
    results.read()
    names = ["right", "crashes", "refused", "hangs", "wrong"]
    pending = [(name, Path(name)) for name in names]
    verify_all(pending, results, 1, 1.0, None, FAKE, lines.append)
    verdicts = [one["verdict"] for one in results.known.values()]
    assert verdicts == ["right", "crash", "refused", "late", "wrong"]
    assert [line.partition(":")[0] for line in lines] == ["crashes", "wrong"]
    with file.open("a") as opened:
        opened.write('{"model": "cut sh')
    again, other = Results(file, "this"), Results(file, "other")
    again.read()
    other.read()
    assert again.known == results.known and other.known == {}
    said, well = summary(again.known, names)
    assert not well and said[0].startswith("5 of 5 models: 1 right") and "1 XL5005" in said[1]
    kept = {name: one for name, one in again.known.items() if name in ("right", "refused")}
    assert summary(kept, ["right", "refused"])[1] and not summary(kept, names)[1]
    verify_all(pending, again, 2, 1.0, 0.0, FAKE)  # the time is over
    assert len(file.read_text().splitlines()) == 6
    assert json.loads(file.read_text().splitlines()[0])["model"] == "right"


@pytest.mark.long  # the package of ONNX computes what its cases expect
def test_the_models_are_there() -> None:
    pytest.importorskip("onnx")
    names = [name for name, file in models() if file.is_file()]
    assert len(names) == len(set(names)) > 600
    kinds = {name.rpartition("/")[0] for name in names}
    assert {"specs", "jax", "onnx/node", "onnx/pytorch-converted"} <= kinds
