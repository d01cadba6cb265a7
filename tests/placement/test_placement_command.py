"""`--place` and `place`, as the commands `run` and `explain` and the chapter have them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placed import drawn_places

from xlac.cli import status
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.placement import predict
from xlac.placement.places import in_stages

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "docs" / "PLACEMENT.md").read_text("utf-8")
(SPEC,) = re.findall(r"^```yaml\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the machine that the chapter tells of."""
    monkeypatch.setattr(predict, "processors", lambda: 2.0)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The chapter's model; without a GPU, as the chapter tells it."""
    path = tmp_path / "two_devices.yaml"
    path.write_text(SPEC.replace("[cuda, c]", "c"), "utf-8")
    return str(path)


def saved(folder: Path, *arguments: str) -> Any:
    """The output of a run."""
    file = folder / "y.npy"
    assert status(["run", *arguments, "--dim", "batch=4", "-o", f"y=@{file}"]) == 0
    return np.load(file)


def test_the_option_wins_over_the_spec(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    targets = {
        "": "cpu and c",
        "*=c": "c",
        "encoder.*=cpu,decoder=reference": "cpu and reference",
        "encoder=nope|reference,decoder.up = c": "reference and c and cpu",
    }
    outputs = []
    for places, on in targets.items():
        outputs.append(saved(tmp_path, spec, *(["--place", places] if places else [])))
        assert f"two_devices on {on}: peak memory" in capsys.readouterr().err
    for output in outputs:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-5, atol=1e-6)


def test_what_is_taken_instead_is_told(
    spec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path, spec, "--place", "decoder=nope|c")
    told = "warning: 'decoder' is on c, not on nope: no backend 'nope' is installed\n"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("text", ["encoder", "=c", "encoder=", "encoder=c,encoder=cpu", "a=c|"])
def test_an_option_of_another_form_is_a_usage_error(
    spec: str, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert status(["run", spec, "--place", text]) == 2
    assert "--place " in capsys.readouterr().err


def test_explain_shows_the_cut_as_the_chapter_does(
    spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["explain", spec]) == 0
    out = capsys.readouterr().out
    shown = CHAPTER.partition("## The cut\n\n```\n")[2].partition("```")[0]
    assert out.startswith(shown)
    assert "\nstage 2 on c\ndecoder.up: linear -> f32[8, 64]\n" in out
    assert status(["explain", spec, "--node", "decoder.up"]) == 0
    (stage, *_) = capsys.readouterr().out.splitlines()
    assert stage == "stage 2 on c"
    assert status(["explain", spec, "--node", "decoder.upp"]) == 2
    assert "no node 'decoder.upp'" in capsys.readouterr().err


def test_explain_shows_the_order_as_the_chapter_does(capsys: pytest.CaptureFixture[str]) -> None:
    """But for numbers, which are those of the processor that the programs are for."""
    assert status(["explain", str(ROOT / "bench" / "placement" / "towers.yaml")]) == 0
    out = capsys.readouterr().out
    shown = next(text for text in CHAPTER.split("```\n") if text.startswith("a call, predicted"))

    def words(text: str) -> list[str]:
        return re.sub(r"[\d,.]+ us", "N us", re.sub(r"^ +", "", text, flags=re.MULTILINE)).split()

    assert " ".join(words(shown)) in " ".join(words(out))


def test_bench_times_the_stages_too(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--seconds", "0.05", "--json"]
    assert status(["bench", spec, *options]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    expected = ["xlac cpu and c", "stage 1 on cpu", "stage 2 on c", "stage 3 on cpu"]
    assert [row["engine"] for row in rows] == expected
    assert all(row["median_us"] > 0 and "comparison" not in row for row in rows)
    assert status(["bench", spec, spec, *options]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["engine"] for row in rows] == 2 * expected
    assert [number for number, row in enumerate(rows) if "comparison" in row] == [4]
    for more in (["--counters"], ["--against", "onnxruntime"]):
        assert status(["bench", spec, *more]) == 2
        assert "for models on one target" in capsys.readouterr().err


def test_explain_shows_state_that_the_host_holds(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(ROOT / "specs" / "lstm_stream.yaml")
    assert status(["explain", spec, "--place", "low.gates=c"]) == 0
    out = capsys.readouterr().out
    assert "state h1 is held by the host: f32[1, 60], 240 bytes\n" in out
    assert "stages read 1,440 bytes a call that others wrote" in out  # gates, and h1 each way


def test_the_python_of_the_chapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two_devices.yaml").write_text(SPEC, "utf-8")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    told = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\nprint(y.shape)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.stdout == "(4, 16)\n", told.stderr


def test_an_onnx_model_is_placed_by_its_names(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    value = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in "xy"]
    nodes = [helper.make_node("Exp", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", value[:1], value[1:]))
    file = tmp_path / "m.onnx"
    onnx.save(model, file)
    assert status(["run", str(file), "--place", "h=c,y=reference"]) == 0
    assert status(["run", str(file), "--place", "third=c"]) == 2


@pytest.mark.parametrize("name", ["lstm_stream", "custom_op", "gpt2_decode", "two_devices"])
def test_an_expanded_spec_is_cut_as_before(spec: str, tmp_path: Path, name: str) -> None:
    """Entries have become several, and blocks are gone; the places are those of before."""
    path, written = tmp_path / f"{name}.yaml", tmp_path / "expanded.yaml"
    if name != "two_devices":
        path.write_text((ROOT / "specs" / f"{name}.yaml").read_text("utf-8"), "utf-8")
        model = specialized(load(path))
        told = {said.pattern: said.targets[0] for said in drawn_places(model, "ab", 3)}
        lines = [f"  {json.dumps(pattern)}: {target}" for pattern, target in told.items()]
        section = "\n".join(["place:", *lines, ""])
        text = path.read_text("utf-8").replace("\ngraph:", f"\n{section}graph:", 1)
        path.write_text(text, "utf-8")
    assert status(["expand", str(path), "-o", str(written)]) == 0

    def stages(file: Path) -> list[tuple[str, set[str]]]:
        model = specialized(load(file))
        cut = in_stages(model, "z", lambda stage, target: target).model
        return [(s.target, {n.name for n in s.model.graph.order if n.inputs}) for s in cut.stages]

    assert stages(written) == stages(path) and len(stages(path)) > 1
