"""Manifests: what they say, that artefacts are the same bytes everywhere, and that damage is found
before loading.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import SPECS, build, inputs_of

import xlac
from xlac.cli import status
from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.source import SourceError


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(
        "digits", tmp_path_factory.mktemp("made") / "out", "--weights", "file", "--dim", "batch=4"
    )


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """The artefact, to be damaged."""
    for file in made.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_manifest_says_what_the_model_is(made: Path) -> None:
    found = manifest.read(made)
    image, probs = found.inputs[0], found.outputs[0]
    assert (image.name, str(image.dtype), image.shape, image.bytes, image.align) == (
        "image",
        "f32",
        (4, 64),
        1024,
        4,
    )
    assert (probs.name, probs.shape) == ("probs", (4, 10))
    assert found.memory.peak == found.memory.arena + found.memory.state + found.memory.weights
    assert found.flops > 4 * 2 * 64 * 10 and found.kernels > 0
    assert found.provenance.spec == hashlib.sha256((SPECS / "digits.yaml").read_bytes()).hexdigest()
    assert found.provenance.options["dims"] == {"batch": 4}
    for name, digest in found.files.items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    assert set(found.files) == {p.name for p in made.iterdir()} - {manifest.NAME}


def test_it_says_nothing_of_where_or_by_whom(made: Path) -> None:
    text = (made / manifest.NAME).read_text()
    for secret in (str(made.parent), str(Path.home()), str(SPECS), os.uname().nodename):
        assert secret not in text or len(secret) < 3


@pytest.mark.parametrize("file", ["libdigits.so", "digits.weights", "digits.h"])
@pytest.mark.parametrize("damage", ["cut", "changed", "gone"])
def test_a_damaged_file_is_found(file: str, damage: str, copied: Path) -> None:
    data = bytearray((copied / file).read_bytes())
    if damage == "gone":
        (copied / file).unlink()
    else:
        data[len(data) // 2] ^= 1
        (copied / file).write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.raises(SourceError, match="XL3013") as told:
        xlac.load(copied)
    assert file in str(told.value) and "build it again" in str(told.value)


def _changed(change: Any) -> Any:
    def apply(text: str) -> str:
        facts = json.loads(text)
        change(facts)
        return json.dumps(facts)

    return apply


def _signed(change: Any) -> Any:
    """A change by someone who knows how the manifest's own hash is made."""

    def apply(text: str) -> str:
        facts = json.loads(text)
        facts.pop("sha256")
        change(facts)
        facts["sha256"] = manifest_facts.digest(facts)
        return json.dumps(facts)

    return apply


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text[: len(text) // 2], "XL3013"),
        (lambda text: "", "XL3013"),
        (lambda text: "[" * 100_000, "XL3013"),
        (lambda text: "[1, 2]", "XL3014"),
        (_changed(lambda m: m.update(format=1)), "XL3014"),
        (_changed(lambda m: m["inputs"][0].update(shape=[5, 64])), "XL3013"),
        (_changed(lambda m: m.pop("sha256")), "XL3013"),
        (_signed(lambda m: m.update(library="../libdigits.so")), "XL3013"),
        (_signed(lambda m: m.update(library="/lib/libc.so.6")), "XL3013"),
        (_signed(lambda m: m.update(library="other.so")), "XL3013"),
        (_signed(lambda m: m["inputs"][0].update(shape=[-1])), "XL3013"),
        (_signed(lambda m: m["inputs"][0].update(dtype="f33")), "XL3013"),
        (_signed(lambda m: m.pop("memory")), "XL3013"),
        (_signed(lambda m: m.update(target="none")), "XL5001"),
    ],
)
def test_a_manifest_that_is_not_as_written_is_refused(
    change: Any, code: str, copied: Path, capsys: Any
) -> None:
    file = copied / manifest.NAME
    file.write_text(change(file.read_text()))
    with pytest.raises(SourceError, match=code):
        xlac.load(copied)
    assert status(["run", str(copied)]) == 2
    assert code in capsys.readouterr().err


def test_weights_of_another_build_are_refused(copied: Path) -> None:
    """The library compares the file's hash with its own, whatever the manifest says."""
    other = bytearray((copied / "digits.weights").read_bytes())
    other[-5] ^= 1
    (copied / "digits.weights").write_bytes(other)
    file = copied / manifest.NAME
    digest = hashlib.sha256(other).hexdigest()
    file.write_text(
        _signed(lambda m: m["files"].update({"digits.weights": digest}))(file.read_text())
    )
    with pytest.raises(SourceError, match="the weights are not those"):
        xlac.load(copied)


def test_what_is_no_artefact_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SourceError, match="XL3012"):
            xlac.load(folder)
    assert status(["run", str(tmp_path)]) == 2
    assert "XL3012" in capsys.readouterr().err
    assert status(["run", str(tmp_path), "--dim", "batch=3"]) == 2
    assert "as it was built" in capsys.readouterr().err


PROBE = """
import sys, numpy as np
import xlac
model = xlac.load(sys.argv[1])
print(repr(model(np.ones((4, 64), np.float32)).tobytes()))
wrong = [n for n in sys.modules if n.startswith(("llvmlite", "jinja2", "yaml", "ruamel"))]
rooms = ("ir", "ops", "passes", "fusion", "codegen", "memory", "spec",
         "frontends", "exporters", "driver", "cache", "model", "debug", "cli")
mine = [n for n in sys.modules if n.startswith("xlac.") and n.split(".")[1] in rooms]
assert not wrong and not mine, (wrong, mine)
"""


def test_an_artefact_runs_without_the_compiler(made: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(made)], capture_output=True, text=True, check=True
    )
    model = xlac.compile(SPECS / "digits.yaml", dims={"batch": 4})
    assert done.stdout.strip() == repr(model(np.ones((4, 64), np.float32)).tobytes())


def test_the_command_runs_it_like_a_spec(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = xlac.load(made)
    inputs = inputs_of(model)
    np.save(tmp_path / "image.npy", inputs["image"])
    np.save(tmp_path / "probs.npy", model(**inputs))
    given = ["--input", f"image=@{tmp_path}/image.npy", "--expect", f"@{tmp_path}/probs.npy"]
    assert status(["run", str(made), *given]) == 0
    said = capsys.readouterr()
    assert "agrees" in said.out and f"{model.manifest.memory.peak:,} bytes" in said.err
    assert (
        status(["run", str(made), "--input", "image=ones", "--expect", f"@{tmp_path}/probs.npy"])
        == 1
    )


def test_calls_of_an_artefact_are_timed(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["bench", str(made), "--seconds", "0.02", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "digits" and 0 < told["best_us"] <= told["median_us"]
    assert status(["bench", str(made), "--seconds", "0.02"]) == 0
    assert "us median" in capsys.readouterr().out


BUILD = "from xlac.cli import status; import sys; sys.exit(status(sys.argv[1:]))"


def test_artefacts_are_the_same_bytes_everywhere(tmp_path: Path) -> None:
    """In another folder, with another home, user name, hash seed, language and time zone."""
    if shutil.which("cc") is None:
        pytest.skip("the program's own text needs a C compiler")
    folders = []
    for number in (0, 1):
        home = tmp_path / f"user{number}"
        home.mkdir()
        (home / "digits.yaml").write_bytes((SPECS / "digits.yaml").read_bytes())
        (home / "digits.safetensors").write_bytes((SPECS / "digits.safetensors").read_bytes())
        folders.append(home / "out" if number else home / "deep" / "er")
        environment = {
            **os.environ,
            "HOME": str(home),
            "USER": f"user{number}",
            "LOGNAME": f"user{number}",
            "TZ": f"UTC{number}",
            "PYTHONHASHSEED": str(number),
            "LANG": ("C", "en_US.UTF-8")[number],
            "XLAC_CACHE": str(home / "cache"),
        }
        options = [
            "--emit",
            "h,o,a,so,exe,s,ll",
            "--static",
            "--cpu",
            "x86-64-v2,x86-64-v3",
            "-o",
            str(folders[-1]),
        ]
        spec = str(home / "digits.yaml") if number else "digits.yaml"
        subprocess.run(
            [sys.executable, "-c", BUILD, "build", spec, *options],
            cwd=home,
            env=environment,
            check=True,
            capture_output=True,
        )
    first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)
    assert first.keys() == second.keys() and len(first) >= 9
    for name in first:
        assert first[name] == second[name], name
