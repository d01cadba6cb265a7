"""The program of --emit exe: it reads and writes .npy files, and says what is wrong with those it
cannot take.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from c_harness import SPECS, build, needs, run

import xlac


@pytest.fixture(scope="module", params=["embed", "incbin", "file", "mmap"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("cc")
    made = build(
        "digits",
        tmp_path_factory.mktemp("main") / "digits",
        "--dim",
        "batch=5",
        "--emit",
        "exe",
        "--weights",
        request.param,
    )
    np.save(made / "image.npy", images())
    return made


def images() -> np.ndarray:
    return np.asarray(np.load(SPECS / "data" / "digits_images.npy")[:5])


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        ["./digits", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_it_computes_what_the_reference_does(folder: Path) -> None:
    run("./digits", "image=image.npy", "probs=out.npy", cwd=folder)
    expected = xlac.compile(SPECS / "digits.yaml", target="reference", dims={"batch": 5})(
        image=images()
    )
    found = np.load(folder / "out.npy")
    assert found.dtype == np.float32 and found.shape == (5, 10)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_an_output_has_a_file_by_itself(folder: Path) -> None:
    run("./digits", "image=image.npy", cwd=folder)
    assert np.load(folder / "probs.npy").shape == (5, 10)


def test_wrong_commands(folder: Path) -> None:
    assert (
        refused(folder) == (2, refused(folder)[1])
        and "no file is given for the input image" in refused(folder)[1]
    )
    code, said = refused(folder, "imago=image.npy")
    assert (
        code == 2
        and "no array of the model is meant by imago=image.npy" in said
        and "usage: digits" in said
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((5, 64)), "its elements are '<f8', and 'image' wants '<f4'"),
        (np.zeros((4, 64), np.float32), "its shape is (4, 64), and 'image' wants (5, 64)"),
        (np.zeros((5, 64, 1), np.float32), "its shape is (5, 64, 1), and 'image' wants (5, 64)"),
        (np.zeros((5, 64), ">f4"), "its elements are '>f4'"),
        (np.asfortranarray(np.zeros((5, 64), np.float32)), "Fortran's order"),
    ],
)
def test_arrays_that_do_not_fit(folder: Path, array: np.ndarray, message: str) -> None:
    np.save(folder / "bad.npy", array)
    code, said = refused(folder, "image=bad.npy")
    assert code == 1 and message in said and "bad.npy" in said


def test_files_that_are_no_arrays(folder: Path) -> None:
    whole = (folder / "image.npy").read_bytes()
    for name, data, message in (
        ("empty.npy", b"", "not a .npy file"),
        ("text.npy", b"hello, this is not an array", "not a .npy file"),
        ("short.npy", whole[:-1], "cut short"),
        ("head.npy", whole[:60], "cut short"),
        ("long.npy", whole + b"x", "more in it"),
        ("liar.npy", whole[:6] + b"\2\0\xff\xff\xff\x7f" + whole[10:], "too long"),
        ("keys.npy", whole.replace(b"descr", b"d%scr"), "elements are ''"),
    ):
        (folder / name).write_bytes(data)
        code, said = refused(folder, f"image={name}")
        assert code == 1 and message in said, (name, said)
    assert refused(folder, "image=absent.npy")[0] == 1
    assert refused(folder, "image=image.npy", "probs=no/such/folder.npy")[0] == 1


def test_weights_that_are_not_the_models(folder: Path, tmp_path: Path) -> None:
    if not (folder / "digits.weights").exists() or "--weights" not in refused(folder)[1]:
        pytest.skip("its weights are inside")
    other = tmp_path / "other.weights"
    data = bytearray((folder / "digits.weights").read_bytes())
    data[16] ^= 1
    other.write_bytes(data)
    assert (
        "not those that the model was built with"
        in refused(folder, "--weights", str(other), "image=image.npy")[1]
    )
    other.write_bytes(data[:100])
    assert refused(folder, "--weights", str(other), "image=image.npy")[0] == 1
    assert refused(folder, "--weights", "absent", "image=image.npy")[0] == 1
    assert refused(folder, "image=image.npy", "--weights")[0] == 2
