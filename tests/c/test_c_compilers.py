"""The C file under every compiler: no warning, only the documented symbols, nothing of the heap, no
libm when none is wanted.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from c_harness import COMPILERS, WARNINGS, build, needs, run, symbols

SPECS = ("digits", "lstm_3x60", "softmax", "loop_while", "branch_cond")
SMALL = {"lstm_3x60": ("--dim", "T=3", "--set", "width=12")}  # weights are a long text
HEAP = {"malloc", "calloc", "realloc", "free", "sbrk", "_sbrk"}
# what a compiler asks for even without a library
FREESTANDING = {"memcpy", "memset", "memcmp", "memmove"}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("weights", ["embed", "incbin", "file", "mmap"])
@pytest.mark.sampled(10)
def test_no_compiler_warns(compiler: str, weights: str, tmp_path: Path) -> None:
    command = COMPILERS[compiler]
    needs(command[0])
    folder = build(
        "digits",
        tmp_path / "digits",
        "--dim",
        "batch=2",
        "--weights",
        weights,
        "--emit",
        "c,h,main",
    )
    for macro in ("-UDIGITS_DEBUG", "-DDIGITS_DEBUG"):
        run(
            *command,
            *WARNINGS,
            macro,
            f"-I{folder}",
            "-c",
            folder / "digits.c",
            "-o",
            tmp_path / "digits.o",
        )
    if compiler != "arm-none-eabi-gcc":  # files need an operating system
        run(*command, *WARNINGS, "-c", folder / "digits_main.c", "-o", tmp_path / "main.o")


@pytest.mark.parametrize(
    "options", [(), ("--size",), ("--no-libm",), ("--size", "--no-libm")], ids=" ".join
)
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.sampled(10)
def test_every_spec_compiles_without_a_warning(
    spec: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    folder = build(spec, tmp_path / spec, *SMALL.get(spec, ()), *options)
    for command in COMPILERS.values():
        if shutil.which(command[0]):
            run(*command, *WARNINGS, "-O1", "-c", folder / f"{spec}.c", "-o", tmp_path / "model.o")


@pytest.mark.parametrize("weights", ["embed", "incbin", "file", "mmap"])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.sampled(10)
def test_only_the_documented_symbols_are_exported(spec: str, weights: str, tmp_path: Path) -> None:
    needs("gcc")
    folder = build(spec, tmp_path / spec, *SMALL.get(spec, ()), "--weights", weights)
    run("gcc", "-O2", f"-I{folder}", "-c", folder / f"{spec}.c", "-o", tmp_path / "model.o")
    defined, undefined = symbols(tmp_path / "model.o")
    header = (folder / f"{spec}.h").read_text()
    declared = set(re.findall(rf"\b({spec}_\w+)\(", header.partition("extern")[2]))
    assert (
        defined == declared
        and {f"{spec}_{f}" for f in ("size", "init", "run", "stop", "reset", "status_text")}
        <= declared
    )
    assert not HEAP & undefined


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.sampled(2)
def test_without_libm_nothing_of_it_is_asked_for(spec: str, tmp_path: Path) -> None:
    needs("gcc")
    folder = build(spec, tmp_path / spec, *SMALL.get(spec, ()), "--no-libm")
    run("gcc", "-O2", "-fno-builtin", "-c", folder / f"{spec}.c", "-o", tmp_path / "model.o")
    assert symbols(tmp_path / "model.o")[1] <= FREESTANDING


def test_contraction_and_fast_math_cannot_spoil_the_sums(tmp_path: Path) -> None:
    """The text says what must be done, whatever the build's flags are."""
    needs("gcc")
    folder = build("softmax", tmp_path / "softmax", "--no-libm")
    text = run("gcc", "-O2", "-std=gnu99", "-mavx2", "-mfma", "-S", "-o", "-", folder / "softmax.c")
    assert "fmadd" not in text
    with pytest.raises(AssertionError, match="without -ffast-math"):
        run("gcc", "-O2", "-ffast-math", "-c", folder / "softmax.c", "-o", tmp_path / "model.o")
