"""The command as its users run it: what it prints, the files it leaves and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from xlac.cli import VERBS, status

SPECS = Path(__file__).parents[2] / "specs"
DIGITS = str(SPECS / "digits.yaml")


def test_help_lists_every_verb_without_importing_the_compiler() -> None:
    code = "import sys; from xlac.cli import status; status(['--help']); print(*sys.modules, file=sys.stderr)"
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


def test_trace_names_rules_and_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        status(["build", str(SPECS / "bert_layer.yaml"), "--trace", "--until", "simplify-2"]) == 0
    )
    said = capsys.readouterr().err
    assert " at ln2" in said and "bert_layer.yaml:" in said


def test_build_is_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        code = f"from xlac.cli import status; status(['build', {DIGITS!r}, '--target', 'c', '-o', {str(tmp_path / name)!r}])"
        environment = {**os.environ, "PYTHONHASHSEED": "1" if name == "a" else "2"}
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env=environment
        )
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


@pytest.mark.parametrize("stage", ["graph", "fused", "kernels", "memory", "source", "asm"])
def test_inspect_prints_every_stage(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["inspect", str(SPECS / "softmax.yaml"), "--stage", stage]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 2


@pytest.mark.parametrize("spec", sorted(SPECS.glob("*.yaml")), ids=lambda p: p.stem)
def test_check_of_a_shipped_spec(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", str(spec)]) == 0
    said = capsys.readouterr().out
    for title in ("node ", "shape", "flops", "peak memory"):
        assert title in said
    assert spec.stem != "resnet50" or "parameters  25,557,032 " in said


@pytest.mark.parametrize(
    "name",
    ["int", 'a b"c', "}}{{", "{% raw %}", "naïve π", "*/ evil", "😀", "main", "a.b", "../up"],
)
@pytest.mark.sampled(6)
def test_names_that_no_c_compiler_likes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """C keywords, quotes, templates and other scripts as names of everything, through all targets."""
    spec = tmp_path / "spec.yaml"
    quoted = [json.dumps(name + tail, ensure_ascii=False) for tail in ("", "1", "2", "3")]
    spec.write_text(
        f"xlac: 1\nmodel: {quoted[0]}\ninputs: {{{quoted[0]}: 'f32[3, 5]'}}\nweights: {{init: {{}}}}\n"
        f"graph:\n  {quoted[1]}: {{op: linear, in: {quoted[0]}, units: 4}}\n"
        f"  {quoted[2]}: {{op: softmax, in: {quoted[1]}, axis: -1}}\noutputs: {{{quoted[3]}: {quoted[2]}}}\n",
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


def test_explain_tells_the_kernel_of_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["explain", DIGITS, "--node", "h1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "h1: linear -> f32[32, 128]\n    kernel dot_0 (dot, add), fused with a1 (max)"
    )
    assert (
        "writes a1 (max) to memory: a dot reads its operands many times" in said and "flops" in said
    )
    assert status(["explain", DIGITS, "--node", "h2"]) == 2
    assert "it has h1, a1" in capsys.readouterr().err


def test_explain_tells_of_every_entry_that_a_user_wrote(capsys: pytest.CaptureFixture[str]) -> None:
    """Each entry, also one that no kernel computes; entries of bodies; and no bookkeeping such as
    'reshape ×3'.
    """
    import yaml

    for name in ("bert_layer", "lstm_3x60", "branch_cond"):
        spec = SPECS / f"{name}.yaml"
        assert status(["explain", str(spec)]) == 0
        said = capsys.readouterr().out
        for key in yaml.safe_load(spec.read_text("utf-8"))["graph"]:
            assert f"\n{key.split(',')[0]}" in f"\n{said}", key
        assert "×" not in said and "in all: " in said


def test_what_reaches_generated_text_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bert_layer", "resnet50"):
        assert (
            status(["inspect", str(SPECS / f"{name}.yaml"), "--stage", "source", "--target", "c"])
            == 0
        )
        assert capsys.readouterr().out.isascii()


def test_explain_tells_of_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["explain", "XL6002"]) == 0
    assert len(capsys.readouterr().out) > 80
    assert status(["explain", "XL0000"]) == 2


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
