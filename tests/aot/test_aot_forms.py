"""`xlac build --emit`: every form of the cpu target on this machine, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from packages import SPECS, agree, build, inputs_of

import xlac
from xlac.cli import status
from xlac_sdk.programs import portable
from xlac_sdk.source import SourceError, UnsupportedError

DIGITS = str(SPECS / "digits.yaml")


@pytest.mark.parametrize("weights", ["embed", "file", "mmap"])
@pytest.mark.parametrize("spec", ["digits", "lstm_3x60", "loop_while", "branch_cond", "tagger"])
@pytest.mark.sampled(16)
def test_an_artefact_computes_what_the_model_does(spec: str, weights: str, tmp_path: Path) -> None:
    folder = build(spec, tmp_path / "out", "--weights", weights)
    agree(spec, xlac.load(folder))
    assert any(p.suffix == ".weights" for p in folder.iterdir()) == (
        weights != "embed" and _has_weights(folder)
    )


@pytest.mark.parametrize(
    "spec", ["digits", "lstm_3x60", "loop_while", "branch_cond", "tagger", "layernorm_gelu"]
)
@pytest.mark.sampled(4)
def test_small_code_computes_what_the_model_does(spec: str, tmp_path: Path) -> None:
    """Over weights inside the code, which the compiler must not take for the zeros that stand there
    at first.
    """
    small = build(spec, tmp_path / "small", "--size", "--emit", "o,so")
    agree(spec, xlac.load(small))
    large = build(spec, tmp_path / "large", "--emit", "o")
    assert (small / f"{spec}.o").stat().st_size < (large / f"{spec}.o").stat().st_size


def _has_weights(folder: Path) -> bool:
    return json.loads((folder / "manifest.json").read_text())["memory"]["weights"] > 0


@pytest.mark.parametrize("spec", ["digits", "loop_while", "branch_cond", "layernorm_gelu"])
def test_what_a_backend_without_forms_built_is_loaded_with_its_program(
    spec: str, tmp_path: Path
) -> None:
    folder = build(spec, tmp_path / "out", "--target", "reference")
    agree(spec, xlac.load(folder))
    text = (folder / "program.json").read_text()
    assert str(SPECS) not in text
    for damage in (
        text[:-9],
        text.replace('"Kernel"', '"Popen"'),
        text.replace('"f32"', '"f33"'),
        "[]",
    ):
        (folder / "program.json").write_text(damage)
        with pytest.raises(SourceError, match="XL5024"):
            portable.read(folder)


def test_every_form_is_written(tmp_path: Path) -> None:
    folder = build("digits", tmp_path / "out", "--emit", "h,o,a,so,s,ll")
    names = {
        "digits.h",
        "digits.o",
        "libdigits.a",
        "libdigits.so",
        "digits.s",
        "digits.weights",
        "digits.ll",
    }
    assert {p.name for p in folder.iterdir()} == names | {"manifest.json"}
    assert json.loads((folder / "manifest.json").read_text())["forms"] == [
        "h",
        "o",
        "a",
        "so",
        "s",
        "ll",
    ]


@pytest.mark.parametrize("form", ["o", "a", "s", "so"])
def test_every_form_links_into_a_c_program(form: str, tmp_path: Path) -> None:
    folder = build("digits", tmp_path / "out", "--emit", f"h,{form}", "--dim", "batch=4")
    (tmp_path / "main.c").write_text(MAIN)
    file = {"o": "digits.o", "a": "libdigits.a", "s": "digits.s", "so": "libdigits.so"}[form]
    made = tmp_path / "main"
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Werror",
        "-I",
        str(folder),
        "main.c",
        str(folder / file),
        "-o",
        str(made),
    ]
    command += [f"-Wl,-rpath,{folder}", f"-Wa,-I{folder}"]
    subprocess.run(command, cwd=tmp_path, check=True)
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    done = subprocess.run([str(made)], input=x.tobytes(), capture_output=True, check=True)
    model = xlac.compile(DIGITS, dims={"batch": 4})
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(4, 10), model(x))


MAIN = """\
#include <stdalign.h>
#include <stdio.h>
#include "digits.h"
static alignas(DIGITS_ALIGN) unsigned char memory[DIGITS_MEMORY_BYTES];
int main(void) {
    static float image[DIGITS_IMAGE_COUNT], probs[DIGITS_PROBS_COUNT];
    digits_context context = {0};
    if (fread(image, sizeof image, 1, stdin) != 1) return 1;
    if (digits_size() != DIGITS_MEMORY_BYTES) return 2;
    if (digits_run(&context, image, probs) != DIGITS_NOT_READY) return 3;
    if (digits_init(&context, memory, 3) != DIGITS_SMALL_MEMORY) return 4;
    if (digits_init(&context, memory + 4, sizeof memory) != DIGITS_MISALIGNED) return 5;
    if (digits_init(0, memory, sizeof memory) != DIGITS_NULL_POINTER) return 6;
    if (digits_run(&context, image, probs) != DIGITS_NOT_READY) return 7;
    if (digits_init(&context, memory, sizeof memory) != DIGITS_OK) return 8;
    if (digits_run(&context, 0, probs) != DIGITS_NULL_POINTER) return 9;
    if (digits_status_text(DIGITS_OK)[0] != 'd' || digits_status_text(99)[0] != 'n') return 10;
    if (digits_run(&context, image, probs) != DIGITS_OK || digits_reset(&context) != DIGITS_OK)
        return 11;
    return fwrite(probs, sizeof probs, 1, stdout) != 1;
}
"""


def test_only_the_documented_api_can_be_seen(tmp_path: Path) -> None:
    wanted = {
        f"lstm_3x60_{name}" for name in ("size", "init", "run", "stop", "reset", "status_text")
    }
    folder = build("lstm_3x60", tmp_path / "out", "--emit", "o,a,so")
    for arguments in (["-D", "liblstm_3x60.so"], ["-g", "lstm_3x60.o"], ["-g", "liblstm_3x60.a"]):
        told = subprocess.run(
            ["nm", "-P", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        symbols = {
            line.split()[0]: line.split()[1] for line in told.splitlines() if len(line.split()) > 1
        }
        assert symbols == dict.fromkeys(wanted, "T"), arguments
    told = subprocess.run(
        ["readelf", "-d", "liblstm_3x60.so"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "NEEDED" not in told.stdout


def test_two_models_link_into_one_program(tmp_path: Path) -> None:
    files = [
        build(name, tmp_path / name, "--emit", "o") / f"{name}.o"
        for name in ("digits", "lstm_3x60", "softmax")
    ]
    subprocess.run(["ld", "-r", *map(str, files), "-o", str(tmp_path / "all.o")], check=True)


@pytest.mark.parametrize(
    ("emit", "code", "told"),
    [
        ("objct", 2, "'objct' is not a form"),
        ("sso", 2, "did you mean 'so'"),
        ("c", 3, "target 'cpu' cannot emit 'c' (one C99 file)"),
        ("wasm", 3, "there is no form 'wasm' for x86_64"),
        (",", 2, "names no form"),
    ],
)
def test_forms_that_cannot_be_are_refused(
    emit: str, code: int, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["build", DIGITS, "--emit", emit, "-o", str(tmp_path / "out")]) == code
    said = capsys.readouterr().err
    assert told in said and "XL5011" in said and "hint" in said
    assert list(tmp_path.iterdir()) == []


def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "out")]
    assert status(["build", DIGITS, "--threads", "2", *out]) == 2
    assert "caller's thread" in capsys.readouterr().err
    assert status(["build", DIGITS, "--target", "reference", "--weights", "mmap", *out]) == 3
    assert "XL5011" in capsys.readouterr().err
    assert status(["build", DIGITS, "--triple", "armv9-unknown-linux-gnueabihff", *out]) in (2, 3)
    assert "hint" in capsys.readouterr().err
    assert status(["build", DIGITS, "--cpu", "skylakee", *out]) == 2
    assert "did you mean 'skylake'" in capsys.readouterr().err
    assert status(["build", DIGITS, "--triple", "aarch64-apple-darwin", *out]) == 3
    assert "--emit o,h" in capsys.readouterr().err
    assert status(["build", DIGITS, "--triple", "hexagon-unknown-elf", "--emit", "o,h", *out]) == 3
    said = capsys.readouterr().err
    assert "XL5107" in said and "--target c" in said, "LLVM gives up on vectors that its probe has"


def test_a_missing_linker_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"XL5004.*\n.*--emit a,h"):
        build(
            "digits",
            tmp_path / "out",
            "--emit",
            "so",
            "--triple",
            "armv7-unknown-linux-gnueabihf",
            "--cpu",
            "cortex-a9",
        )
    build("digits", tmp_path / "out", "--emit", "a,h,s,ll")


def test_weights_that_change_while_they_are_built_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is written to after the model was loaded, while the object is made."""
    from xlac_cpu.ahead import package

    for name in ("digits.yaml", "digits.safetensors"):
        shutil.copy(SPECS / name, tmp_path)
    real = package.Making.write_o

    def writing(self: package.Making) -> None:
        real(self)
        with (tmp_path / "digits.safetensors").open("r+b") as file:
            file.seek(-4, 2)
            file.write(b"\x01\x02\x03\x04")

    monkeypatch.setattr(package.Making, "write_o", writing)
    with pytest.raises(SourceError, match="XL3015"):
        build(tmp_path / "digits.yaml", tmp_path / "out", "--emit", "o")
    assert not (tmp_path / "out").exists()


def test_inputs_are_checked_by_name(tmp_path: Path) -> None:
    model = xlac.load(build("digits", tmp_path / "out"))
    with pytest.raises(SourceError, match="XL6001"):
        model(picture=np.zeros(3))
    with pytest.raises(SourceError, match="XL6003"):
        model(np.zeros((3, 64), np.float32))
    assert model(**inputs_of(model)).shape == (32, 10)
