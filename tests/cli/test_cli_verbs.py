"""The command as its users run it: what it prints, the files it leaves and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xlac.cli import VERBS, status
from xlac.runtime.compiled import Compiled

SPECS = Path(__file__).parents[2] / "specs"
DIGITS = str(SPECS / "digits.yaml")


def test_help_lists_every_verb_without_importing_the_compiler() -> None:
    code = (
        "import sys; from xlac.cli import status; status(['--help']); print(*sys.modules, "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(verb in done.stdout for verb in VERBS)
    heavy = {"numpy", "pydantic", "yaml", "llvmlite", "jinja2", "rich"}
    assert not heavy & set(done.stderr.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status([verb, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_unknown_verb_is_the_users_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["bild", DIGITS]) == 2
    assert "did you mean 'build'" in capsys.readouterr().err


def test_run_classifies_the_test_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    probs = tmp_path / "probs.npy"
    images = SPECS / "data" / "digits_images.npy"
    assert (
        status(["run", DIGITS, "--input", f"image=@{images}", "--output", f"probs=@{probs}"]) == 0
    )
    found, labels = np.load(probs), np.load(SPECS / "data" / "digits_labels.npy")
    assert found.shape == (360, 10)
    assert (found.argmax(1) == labels).mean() > 0.97


def test_expect_compares_and_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved, wrong = tmp_path / "all.npz", tmp_path / "wrong.npy"
    given = ["run", DIGITS, "--dim", "batch=2", "--input", "image=random"]
    assert status([*given, "--outputs", str(saved)]) == 0
    assert status([*given, "--expect", f"@{saved}"]) == 0
    np.save(wrong, np.zeros((2, 10), np.float32))
    assert status([*given, "--expect", f"probs=@{wrong}"]) == 1
    assert "DIFFERS" in capsys.readouterr().out
    missing = ["--expect", f"@{tmp_path / 'none.npz'}", "--expect", f"probs=@{tmp_path / 'no.npy'}"]
    assert status([*given, *missing]) == 2
    told = capsys.readouterr()
    assert "none.npz" in told.err and "no.npy" in told.err and "digits on" not in told.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image=nonsense", "cannot read 'nonsense'"),
        ("image=2x64xf33=1", "cannot read"),
        ("image=2x64xf32=1,2,3", "cannot reshape"),
        ("image=2x63xf32=1", "has 63 at axis 1"),
        ("image=2x64xf64=1", "must be f32, not float64"),
        ("picture=random", "unknown input 'picture'"),
        ("image=@missing.npy", "missing.npy"),
    ],
)
def test_wrong_inputs_are_named(
    text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["run", DIGITS, "--input", text]) == 2
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said


@pytest.mark.parametrize("option", ["--inputs", "--expect"])
def test_files_that_hold_no_arrays_are_the_users_mistake(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: tmp_path / name for name in ("garbage.npz", "objects.npz", "one.npz", "cut.npz")}
    files["garbage.npz"].write_bytes(b"hello")
    np.savez(files["objects.npz"], probs=np.array([{}], object), image=np.array([{}], object))
    with files["one.npz"].open("wb") as out:
        np.save(out, np.zeros(3))
    np.savez_compressed(files["cut.npz"], image=np.zeros((4, 64), np.float32))
    files["cut.npz"].write_bytes(files["cut.npz"].read_bytes()[:100])
    for file in (*files.values(), tmp_path / "none.npz", tmp_path):
        assert status(["run", DIGITS, option, str(file)]) == 2, file
        said = capsys.readouterr().err
        assert "Traceback" not in said and "pickle" not in said and file.name in said, file


def test_the_peak_is_told_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["run", DIGITS, "--dim", "batch=8"]) == 0
    told = capsys.readouterr().err
    assert status(["build", DIGITS, "--dim", "batch=8", "-o", str(tmp_path / "out")]) == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    peak = manifest["memory"]["peak"]
    assert (
        f"peak memory {peak:,} bytes" in told
        and f"peak memory {peak:,} bytes" in capsys.readouterr().out
    )
    assert manifest["provenance"]["machines"][0]["cpu"]


def test_a_graph_that_cannot_be_read_is_the_users_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for content in (b"garbage", b"graph g {\n  x = nonsense()\n}\n", b"\xff\xfe", b""):
        (tmp_path / "bad.graph").write_bytes(content)
        assert (
            status(
                [
                    "build",
                    DIGITS,
                    "--graph",
                    str(tmp_path / "bad.graph"),
                    "-o",
                    str(tmp_path / "out"),
                ]
            )
            == 2
        )
        assert "bad.graph" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_literals_fill_the_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["run", DIGITS, "--input", "image=3x64xf32=0.5"]) == 0
    assert "probs: float32[3, 10]" in capsys.readouterr().out


@pytest.mark.parametrize("spec", sorted(SPECS.glob("*.yaml")), ids=lambda p: p.stem)
@pytest.mark.sampled(6)
def test_check_of_a_shipped_spec(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", str(spec)]) == 0
    said = capsys.readouterr().out
    for title in ("node ", "shape", "flops", "peak memory"):
        assert title in said
    assert spec.stem != "resnet50" or "parameters  25,557,032 " in said


def test_bench_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    spec = str(SPECS / "mlp_small.yaml")
    assert status(["bench", spec, "--seconds", "0.05", "--json", "--threads", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["median_us"] > 0 and result["kernels"] == 3 and result["flops"] > 24_000


def test_ops_lists_and_describes(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["ops"]) == 0
    assert "softmax" in capsys.readouterr().out
    assert status(["ops", "softmax"]) == 0
    assert "axis" in capsys.readouterr().out
    assert status(["ops", "softmaks"]) == 2
    assert "did you mean 'softmax'" in capsys.readouterr().err


def test_doctor_tries_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["doctor"]) == 0
    said = capsys.readouterr().out
    assert (
        all(f"target {name}" in said for name in ("c", "cpu", "reference")) and "FAILS" not in said
    )


@pytest.mark.parametrize(
    "arguments", [["--target", "gpu"], ["--cpu", "pentium9"], ["--triple", "nowhere"]]
)
def test_unknown_targets_are_the_users_mistake(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["build", DIGITS, *arguments]) in (2, 3)
    assert "error:" in capsys.readouterr().err


OPEN_SPEC = """\
xlac: 1
model: open
dims: {n: {min: 1, max: 99, opt: 64}}
inputs: {x: 'f32[n, 8]'}
graph: {y: x * 2}
outputs: [y]
"""


@pytest.mark.parametrize("verb", ["profile", "bench"])
@pytest.mark.parametrize("built", [False, True])
def test_what_is_measured_is_given(
    verb: str,
    built: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The arrays that the user has, at the sizes that they have."""
    if verb == "profile" and built:
        pytest.skip("artefacts are not profiled")
    file, array = tmp_path / "open.yaml", tmp_path / "x.npy"
    file.write_text(OPEN_SPEC)
    x = np.full((3, 8), 1e-42, np.float32)
    np.save(array, x)
    model = str(file)
    if built:
        model = str(tmp_path / "built")
        assert status(["build", str(file), "--dim", "n=1..99", "-o", model]) == 0
    seen: list[np.ndarray] = []
    called = Compiled.__call__

    def call(self: Compiled, *arrays: np.ndarray) -> object:
        seen.append(arrays[0])
        return called(self, *arrays)

    monkeypatch.setattr(Compiled, "__call__", call)
    given = [verb, model, "--seconds", "0.01", "--input"]
    assert status([*given, f"x=@{array}"]) == 0
    assert seen and all(np.array_equal(one, x) for one in seen)
    assert status([*given, "z=1"]) == 2
    assert "unknown input 'z'" in capsys.readouterr().err
