"""The example projects are built and run as their first lines say."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c_harness import EXAMPLES, SPECS, build, needs, run

import xlac


@cache
def answer() -> str:
    """What the examples must say, from the reference backend."""
    pixels = [int(p) for p in (EXAMPLES / "three.inc").read_text().split(",")]
    model = xlac.compile(SPECS / "digits.yaml", target="reference", dims={"batch": 1})
    probabilities = model(image=np.array([pixels], np.float32) / 16)[0]
    return f"a {probabilities.argmax()}, with probability {probabilities.max():.3f}\n"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))


def test_c(examples: Path) -> None:
    needs("make", "cc")
    build("digits", examples / "c" / "digits", "--dim", "batch=1")
    run("make", cwd=examples / "c")
    assert run("./digit", cwd=examples / "c") == answer()


def test_c_that_learns(examples: Path) -> None:
    needs("make", "cc")
    build("digits_train", examples / "c" / "digits_train", "--dim", "batch=16")
    run("make", "train", "CFLAGS=-O2 -Werror", cwd=examples / "c")
    learned(run("./train", cwd=examples / "c").splitlines())


def learned(told: list[str]) -> None:
    """The example learned: what it said at first, and at last."""
    first, last = (float(line.split("loss ")[1].split(",")[0]) for line in (told[0], told[-1]))
    assert len(told) == 5 and first > 2 and last < 0.05 and "100 % right" in told[-1]


@pytest.mark.parametrize("target", ["c", "cpu"])
@pytest.mark.sampled(4)
def test_cpp_that_learns(examples: Path, target: str) -> None:
    needs("make", "cc", "g++")
    folder, forms = examples / "cpp", {"c": "c,h,hpp", "cpu": "hpp,o"}[target]
    options = ("--dim", "batch=16", "--target", target, "--emit", forms)
    build("digits_train", folder / "digits_train", *options)
    if target == "c":
        run("make", "train", "CXXFLAGS=-O2 -pedantic -Werror", cwd=folder)
    else:
        run(
            "g++",
            "-std=c++17",
            "-pedantic",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Idigits_train",
            "train.cpp",
            "digits_train/digits_train.o",
            "-o",
            "train",
            cwd=folder,
        )
    *told, refused, last = run("./train", cwd=folder).splitlines()
    learned([*told, last])
    assert refused == "refused: the tensor has another number of elements"


def test_rust_that_learns(examples: Path) -> None:
    needs("rustc", "cc")
    folder = examples / "rust"
    options = ("--dim", "batch=16", "--target", "cpu", "--emit", "rs,o")
    build("digits_train", folder / "digits_train", *options)
    run(
        "rustc",
        "--edition",
        "2024",
        "-D",
        "warnings",
        "train.rs",
        "-C",
        "link-arg=digits_train/digits_train.o",
        cwd=folder,
    )
    learned(run("./train", cwd=folder).splitlines())


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
@pytest.mark.sampled(4)
def test_cpp(examples: Path, standard: str) -> None:
    needs("make", "cc", "g++")
    build("digits", examples / "cpp" / "digits", "--dim", "batch=1", "--emit", "c,h,hpp")
    run("make", f"CXXFLAGS=-O2 -std={standard} -pedantic -Werror", cwd=examples / "cpp")
    refused = "refused: 'image' has another number of elements than the model's\n"
    assert run("./digit", cwd=examples / "cpp") == refused + answer()


@pytest.mark.parametrize("weights", ["embed", "incbin"])
@pytest.mark.sampled(4)
def test_cmake(examples: Path, weights: str) -> None:
    needs("cmake", "cc", "g++")
    folder = examples / "cmake"
    build(
        "digits",
        folder / "digits",
        "--dim",
        "batch=1",
        "--emit",
        "c,h,hpp,cmake",
        "--weights",
        weights,
    )
    run("cmake", "-S", ".", "-B", "build", f"-Ddigits_DIR={folder / 'digits'}", cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    assert run("build/digit_c", cwd=folder) == answer()
    assert run("build/digit_cpp", cwd=folder).endswith(answer())


@pytest.mark.parametrize("library", ["a", "so", ""])
@pytest.mark.sampled(6)
def test_cmake_with_native_code(examples: Path, library: str) -> None:
    """The same projects over a library of the cpu backend, static or shared; a static one is made
    where none is named.
    """
    needs("cmake", "cc", "g++")
    folder = examples / "cmake"
    forms = {"a": "hpp,cmake,a", "so": "hpp,cmake,so"}.get(library, "hpp,cmake")
    build("digits", folder / "digits", "--dim", "batch=1", "--target", "cpu", "--emit", forms)
    run("cmake", "-S", ".", "-B", "build", f"-Ddigits_DIR={folder / 'digits'}", cwd=folder)
    run("cmake", "--build", "build", cwd=folder)
    assert run("build/digit_c", cwd=folder) == answer()
    assert run("build/digit_cpp", cwd=folder).endswith(answer())


def test_rust_with_native_code(examples: Path) -> None:
    needs("rustc", "cc")
    folder = examples / "rust"
    build("digits", folder / "digits", "--dim", "batch=1", "--target", "cpu", "--emit", "rs,o")
    run(
        "rustc",
        "--edition",
        "2024",
        "-D",
        "warnings",
        "main.rs",
        "-C",
        "link-arg=digits/digits.o",
        cwd=folder,
    )
    assert run("./main", cwd=folder) == answer()


def test_rust(examples: Path) -> None:
    needs("rustc", "cc")
    folder = examples / "rust"
    build("digits", folder / "digits", "--dim", "batch=1", "--emit", "c,h,rs")
    run("cc", "-O2", "-c", "digits/digits.c", "-o", "digits.o", cwd=folder)
    run(
        "rustc",
        "--edition",
        "2024",
        "-D",
        "warnings",
        "main.rs",
        "-C",
        "link-arg=digits.o",
        "-C",
        "link-arg=-lm",
        cwd=folder,
    )
    assert run("./main", cwd=folder) == answer()
