"""docs/SERVING.md does what it says. `make test-serve`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from serving import WITHOUT, infer, server, settings

from xlac.cli import status
from xlac.integrations.serving.serving_options import ServingOptions

CHAPTER = (Path(__file__).parents[2] / "docs" / "SERVING.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The samples in one language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", CHAPTER, re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind == language]


def test_settings_of_batching() -> None:
    (text,) = (text for text in blocks("json") if text.startswith('"batching"'))
    said = json.loads("{" + text + "}")
    assert ServingOptions.of(said) == ServingOptions(batching=True, rows=32, wait=0.002)


@pytest.mark.long
@pytest.mark.skipif(bool(WITHOUT), reason=f"{WITHOUT} is not installed: make test-serve")
def test_the_first_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command and sample, at ports that are free."""
    monkeypatch.chdir(tmp_path)
    Path("scores.yaml").write_text(blocks("yaml")[0], "utf-8")
    commands = [line for text in blocks("") for line in text.splitlines()]
    for line in commands:
        if line.startswith("xlac "):
            assert status(shlex.split(line)[1:]) == 0
    assert "mlserver start models" in commands
    settings_file = Path("models/scores/model-settings.json")
    settings_file.write_text(blocks("json")[0], "utf-8")
    with server(tmp_path / "models") as started:
        asked = [line for line in commands if line.startswith("curl ")]
        assert len(asked) == 2
        if shutil.which("curl"):
            for line in asked:
                words = shlex.split(line.replace(":8080", f":{started.http}"))
                said = subprocess.run([*words, "--fail"], capture_output=True, check=True)
                assert b'"name":"p"' in said.stdout
        program = blocks("python")[0].replace(":8081", f":{started.grpc}")
        Path("client.py").write_text(program + "print(p.dtype, p.shape)\n", "utf-8")
        ran = subprocess.run(
            [sys.executable, "client.py"], capture_output=True, text=True, check=False
        )
        assert ran.stdout == "float32 (2, 4)\n", ran.stderr
        given = {"name": "x", "datatype": "FP64", "shape": [1, 16], "data": [0.0] * 16}
        code, wrong = infer(started.http, "scores", {"inputs": [given]})
        (told,) = re.findall(r'^{"error":"(.*)"}$', CHAPTER, re.MULTILINE)
        assert code == 400 and wrong["error"].endswith(told)
        for metric in re.findall(r"`((?:model_infer|xlac)_\w+)`", CHAPTER):
            name = metric if metric.endswith("_total") else f"{metric}_count"
            assert started.metric(name, "scores") >= 1


@pytest.mark.long
@pytest.mark.skipif(bool(WITHOUT), reason=f"{WITHOUT} is not installed: make test-serve")
def test_infinity_and_nan_by_http(tmp_path: Path) -> None:
    """They are null, as the chapter says."""
    text = "xlac: 1\ninputs: {x: 'f32[2]'}\ngraph: {y: log(x)}\noutputs: [y]\n"
    (tmp_path / "m.yaml").write_text(text, "utf-8")
    settings(tmp_path, "m", "../m.yaml")
    given = {"name": "x", "datatype": "FP32", "shape": [2], "data": [0.0, -1.0]}
    with server(tmp_path, parallel_workers=0) as started:
        code, said = infer(started.http, "m", {"inputs": [given]})
    assert (code, said["outputs"][0]["data"]) == (200, [None, None])
