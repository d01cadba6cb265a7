"""A C file for every size within bounds: sizes are a struct that each run is given and that is
checked.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_harness import COMPILERS, SPECS, WARNINGS, build, needs, run

import xlac
from xlac_sdk.host.capi import Status
from xlac_sdk.host.capi.library import ContextStruct, aligned

FORMS = "c,h,hpp,rs,main,so,exe"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("cc")
    return build(
        "digits",
        tmp_path_factory.mktemp("sizes") / "digits",
        "--dim",
        "batch=1..8",
        "--emit",
        FORMS,
    )


def expected(x: np.ndarray) -> np.ndarray:
    return np.asarray(
        xlac.compile(SPECS / "digits.yaml", target="reference", dims={"batch": len(x)})(image=x)
    )


def images(count: int) -> np.ndarray:
    return np.asarray(np.load(SPECS / "data" / "digits_images.npy")[:count])


def pointer(array: np.ndarray) -> Any:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.sampled(2)
def test_no_compiler_warns(compiler: str, folder: Path, tmp_path: Path) -> None:
    needs(COMPILERS[compiler][0])
    for file in ["digits.c"] + ["digits_main.c"] * (compiler != "arm-none-eabi-gcc"):
        run(*COMPILERS[compiler], *WARNINGS, "-c", folder / file, "-o", tmp_path / "made.o")


def test_every_size_within_the_bounds_and_none_beyond(folder: Path) -> None:
    library = ctypes.CDLL(str(folder / "digits.so"))
    library.digits_size.restype = ctypes.c_size_t
    sizes = ctypes.c_int64(8)
    given = ctypes.byref(sizes)
    nbytes = int(library.digits_size(given))
    context, memory = ContextStruct(), aligned(nbytes)
    here = ctypes.byref(context)
    assert library.digits_init(here, pointer(memory), ctypes.c_size_t(nbytes)) == 0
    for count in range(1, 9):
        sizes.value = count
        x, y = images(count), np.full((count + 1, 10), 7, np.float32)
        assert library.digits_run(here, given, pointer(x), pointer(y)) == 0
        np.testing.assert_allclose(y[:count], expected(x), rtol=1e-5, atol=1e-6)
        assert (y[count] == 7).all()
    before, y = memory.copy(), np.full((9, 10), 7, np.float32)
    for count in (0, 9, -1, 1 << 40):
        sizes.value = count
        assert library.digits_size(given) == 0
        assert (
            library.digits_run(here, given, pointer(images(9)), pointer(y))
            == Status.OUT_OF_BOUNDS.number
        )
    assert (
        library.digits_run(here, None, pointer(images(1)), pointer(y)) == Status.NULL_POINTER.number
    )
    assert (y == 7).all() and (memory == before).all()


@pytest.mark.parametrize("count", [1, 5, 8])
def test_the_program_takes_its_sizes_from_the_files(
    count: int, folder: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "image.npy", images(count))
    run(folder / "digits", "image=image.npy", cwd=tmp_path)
    np.testing.assert_allclose(
        np.load(tmp_path / "probs.npy"), expected(images(count)), rtol=1e-5, atol=1e-6
    )


def test_the_program_refuses_sizes_beyond(folder: Path, tmp_path: Path) -> None:
    for array in (images(9), images(0), images(2)[:, :63], images(2)[None]):
        np.save(tmp_path / "image.npy", array)
        with pytest.raises(AssertionError, match=r": 1\n"):
            run(folder / "digits", "image=image.npy", cwd=tmp_path)
    assert not (tmp_path / "probs.npy").exists()


def test_python_finds_the_sizes(folder: Path) -> None:
    model = xlac.load(folder)
    for count in (3, 8, 1):
        np.testing.assert_allclose(
            np.asarray(model(image=images(count))), expected(images(count)), rtol=1e-5, atol=1e-6
        )


CPP = """
#include "digits.hpp"
#include <vector>
int main()
{
    digits::Model model;
    std::vector<float> image(3 * 64), probs(3 * 10);
    digits_sizes sizes = {3};
    model.run(sizes, image, probs);
    try {
        sizes.batch = 2;
        model.run(sizes, image, probs);
    } catch (const std::length_error &) {
        sizes.batch = 9;
        image.resize(9 * 64), probs.resize(9 * 10);
        try {
            model.run(sizes, image, probs);
        } catch (const digits::Error &error) {
            return error.status() == DIGITS_OUT_OF_BOUNDS ? 0 : 2;
        }
    }
    return 1;
}
"""


def test_the_wrapper_counts_elements_by_the_sizes(folder: Path, tmp_path: Path) -> None:
    needs("g++")
    (tmp_path / "main.cpp").write_text(CPP)
    run(
        "g++",
        "-std=c++17",
        "-Wall",
        "-Wextra",
        f"-I{folder}",
        tmp_path / "main.cpp",
        folder / "digits.so",
        "-o",
        tmp_path / "main",
    )
    run("env", f"LD_LIBRARY_PATH={folder}", tmp_path / "main")
