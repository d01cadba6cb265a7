"""`xlac build --variant`: code for chosen sizes inside one artefact, what is said of it, and what
is refused.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packages import SPECS, build, by_name

import xlac
from xlac.cli import status
from xlac_sdk.host import manifest, manifest_facts
from xlac_sdk.host.capi.library import ContextStruct, aligned

DIGITS = str(SPECS / "digits.yaml")
OPEN = ["--dim", "batch=1..9", "--variant", "batch=1", "--variant", "batch=4"]
TARGETS = ("cpu", "c", "reference")


def images(count: int) -> Any:
    return np.random.default_rng(count).standard_normal((count, 64)).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.sampled(6)
def test_an_artefact_says_what_static_artefacts_say(target: str, tmp_path: Path) -> None:
    made = xlac.load(build("digits", tmp_path / "out", "--target", target, *OPEN))
    usual = xlac.load(
        build("digits", tmp_path / "usual", "--target", target, "--dim", "batch=1..9")
    )
    for count in (1, 4):
        static = xlac.load(
            build(
                "digits", tmp_path / f"static{count}", "--target", target, "--dim", f"batch={count}"
            )
        )
        np.testing.assert_array_equal(made(images(count)), static(images(count)))
        np.testing.assert_allclose(made(images(count)), usual(images(count)), rtol=1e-5, atol=1e-6)
    for count in (2, 9):
        np.testing.assert_array_equal(made(images(count)), usual(images(count)))


@pytest.mark.parametrize("weights", ["file", "mmap"])
def test_variants_share_the_weights_beside_the_code(weights: str, tmp_path: Path) -> None:
    made = xlac.load(build("digits", tmp_path / "out", "--weights", weights, *OPEN))
    for count in (1, 4, 5):
        right = xlac.compile(DIGITS, dims={"batch": count})(images(count))
        np.testing.assert_allclose(made(images(count)), right, rtol=1e-5, atol=1e-6)


def test_the_manifest_and_the_header_name_the_variants(tmp_path: Path) -> None:
    folder = build("digits", tmp_path / "out", *OPEN)
    assert manifest.read(folder).variants == ({"batch": 1}, {"batch": 4})
    assert "There is specialized code for: batch=1; batch=4." in (folder / "digits.h").read_text()
    assert manifest.read(build("digits", tmp_path / "plain", "--dim", "batch=1..9")).variants == ()
    text = (folder / manifest.NAME).read_text()
    facts = json.loads(text)
    facts.pop("sha256")
    facts["variants"] = [{"batch": -1}]
    facts["sha256"] = manifest_facts.digest(facts)
    (folder / manifest.NAME).write_text(json.dumps(facts))
    assert status(["run", str(folder)]) == 2


def test_the_build_tells_what_variants_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build("digits", tmp_path / "out", *OPEN)
    told = [line for line in capsys.readouterr().out.splitlines() if "variant" in line]
    assert len(told) == 2 and told[0].startswith("  variant batch=1: ") and "kernels" in told[0]
    assert "weights in a layout of its own" in told[0], "a batch of one takes its weights unpacked"


def test_a_size_left_open_by_name_has_the_bounds_of_the_spec(tmp_path: Path) -> None:
    (size,) = manifest.read(
        build("digits", tmp_path / "out", "--dim", "batch", "--variant", "batch=512")
    ).sizes
    assert (size.min, size.max, size.opt) == (1, 512, 32)
    (size,) = manifest.read(build("digits", tmp_path / "half", "--dim", "batch=4..")).sizes
    assert (size.min, size.max) == (4, 512)
    (size,) = manifest.read(build("digits", tmp_path / "other", "--dim", "batch=..4")).sizes
    assert (size.min, size.max, size.opt) == (1, 4, 4)


def test_the_same_bytes(tmp_path: Path) -> None:
    for target in ("cpu", "c"):
        first, second = (
            build("digits", tmp_path / f"{target}{n}", "--target", target, *OPEN) for n in range(2)
        )
        for file in sorted(p.name for p in first.iterdir()):
            assert (first / file).read_bytes() == (second / file).read_bytes(), file


def test_several_processors_have_the_variants_each(tmp_path: Path) -> None:
    levels = "x86-64-v2,x86-64-v3"
    made = xlac.load(build("digits", tmp_path / "out", "--cpu", levels, *OPEN))
    for count in (1, 4, 7):
        right = xlac.compile(DIGITS, dims={"batch": count})(images(count))
        np.testing.assert_allclose(made(images(count)), right, rtol=1e-5, atol=1e-6)


def test_int8_weights_and_small_code(tmp_path: Path) -> None:
    made = xlac.load(build("digits", tmp_path / "out", "--quantize", "int8", "--size", *OPEN))
    usual = xlac.load(
        build("digits", tmp_path / "usual", "--quantize", "int8", "--size", "--dim", "batch=1..9")
    )
    for count in (1, 4, 6):
        np.testing.assert_allclose(made(images(count)), usual(images(count)), rtol=1e-5, atol=1e-6)


def test_two_sizes_and_a_program_from_files(tmp_path: Path) -> None:
    options = [
        "--set",
        "hidden=128",
        "--set",
        "heads=2",
        "--set",
        "ffn=32",
        "--dim",
        "batch=1..3",
        "--dim",
        "past=0..16",
    ]
    folder = build(
        "gpt2_decode",
        tmp_path / "out",
        *options,
        "--variant",
        "batch=2,past=16",
        "--variant",
        "batch=1",
        "--emit",
        "exe,so",
    )
    model = xlac.load(folder)
    params = {"hidden": 128, "heads": 2, "ffn": 32}
    for sizes in ({"batch": 2, "past": 16}, {"batch": 1, "past": 5}, {"batch": 3, "past": 0}):
        rng = np.random.default_rng(0)
        inputs = {
            s.name: rng.standard_normal(s.extents(sizes)).astype(s.dtype.numpy)
            for s in model.program.inputs
        }
        right = xlac.compile(SPECS / "gpt2_decode.yaml", params=params, dims=sizes)
        want = by_name(right(**inputs), right.outputs)
        for name, got in by_name(model(**inputs), model.outputs).items():
            np.testing.assert_allclose(
                got, want[name], rtol=2e-5, atol=2e-5, err_msg=f"{name} {sizes}"
            )
        for name, array in inputs.items():
            np.save(tmp_path / f"{name}.npy", array)
        given = [f"{name}={tmp_path}/{name}.npy" for name in inputs]
        subprocess.run(
            [folder / "gpt2_decode", *given, f"y={tmp_path}/y.npy"], cwd=tmp_path, check=True
        )
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want["y"], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.sampled(4)
def test_nothing_is_written_beyond_the_arrays(target: str, tmp_path: Path) -> None:
    """Each variant writes its rows and no more, and stays inside the memory that the header asks
    for.
    """
    folder = build("digits", tmp_path / "out", "--target", target, "--emit", "so,h", *OPEN)
    library = ctypes.CDLL(str(next(folder.glob("*.so"))))
    library.digits_size.restype = ctypes.c_size_t
    for count in (1, 4, 6):
        sizes = ctypes.byref(ctypes.c_int64(count))
        nbytes = int(library.digits_size(sizes))
        memory, context = aligned(nbytes + 64), ContextStruct()
        memory[:] = 0xA5
        assert (
            library.digits_init(
                ctypes.byref(context), ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(nbytes)
            )
            == 0
        )
        x, y = images(count), np.full((count + 1, 10), 7, np.float32)
        assert (
            library.digits_run(
                ctypes.byref(context),
                sizes,
                ctypes.c_void_p(x.ctypes.data),
                ctypes.c_void_p(y.ctypes.data),
            )
            == 0
        )
        assert (y[count] == 7).all() and (y[:count] != 7).any() and (memory[nbytes:] == 0xA5).all()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--variant", "batch=1"], "'batch' is not an open size"),
        (["--dim", "batch=4", "--variant", "batch=4"], "'batch' is not an open size"),
        (["--dim", "batch", "--variant", "batch=0"], "batch = 0 is not 1 to 512"),
        (["--dim", "batch=2..8", "--variant", "batch=1"], "batch = 1 is not 2 to 8"),
        (["--dim", "batch", "--variant", "batch=many"], "is not a size"),
        (["--dim", "batch", "--variant", "batch=-1"], "no call has it"),
        (["--dim", "batch", "--variant", "batch=1..8"], "is not a size"),
        (["--dim", "batch", "--variant", "rows=1"], "'rows' is not an open size"),
        (["--dim", "batch", "--variant", "batch=1", "--variant", "batch=1"], "asked for twice"),
    ],
)
def test_variants_that_cannot_be_are_refused(
    options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["build", DIGITS, "-o", str(tmp_path / "out"), *options]) == 2
    said = capsys.readouterr().err
    assert told in said and "XL4022" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variant", ["", "batch", "=1", "batch=1,batch=2", "batch=1,"])
def test_texts_that_are_no_variant_are_usage_errors(
    variant: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        status(
            ["build", DIGITS, "-o", str(tmp_path / "out"), "--dim", "batch", "--variant", variant]
        )
        == 2
    )
    assert "--variant" in capsys.readouterr().err


def test_a_limit_counts_what_the_largest_variant_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["build", DIGITS, "-o", str(tmp_path / "out"), *OPEN, "--max-memory", "100"]) == 4
    assert "XL4020" in capsys.readouterr().err
