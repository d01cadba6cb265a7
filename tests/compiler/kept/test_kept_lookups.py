"""A second compilation is a lookup: what it imports, and what is opened and linked for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kept_models import ROW, backend

import xlac
from xlac.cache import compilations
from xlac.cli import status
from xlac.options import CompileOptions
from xlac.runtime.compiled import Compiled
from xlac_cpu.run import shared


def test_a_second_compilation_is_a_lookup(spec: Path, compiled: list[object]) -> None:
    first = xlac.compile(spec, dims={"n": 2})
    second = xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 1
    assert isinstance(first, Compiled) and isinstance(second, Compiled)
    np.testing.assert_array_equal(first(ROW), second(ROW))
    assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
    assert (second.program.arena_bytes, second.program.facts["precision"]) == (
        first.program.arena_bytes,
        "default",
    )


def numpy_imports() -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", "import sys, numpy; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def test_it_imports_nothing_of_the_compiler(spec: Path) -> None:
    xlac.compile(spec, dims={"n": 2})
    code = (
        "import sys, numpy, xlac; m = xlac.compile(sys.argv[1], dims={'n': 2});"
        "print(float(m(numpy.ones((2, 4), numpy.float32)).sum()));"
        "print(*sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(spec)], capture_output=True, text=True, check=True
    ).stdout
    total, modules = told.splitlines()
    idle = {
        "xlac.driver",
        "xlac.ops",
        "xlac.spec",
        "pydantic",
        "yaml",
        "jinja2",
        "xlac_sdk.kernel_ir.kernel",
        "xlac_sdk.programs.steps",
    }
    slow = {
        "pathlib",
        "shutil",
        "tempfile",
        "hashlib",
        "importlib.metadata",
        "platformdirs",
        "sysconfig",
    } - set(numpy_imports())
    assert not (idle | slow) & set(modules.split())
    assert float(total) == pytest.approx(
        float(xlac.compile(spec, dims={"n": 2})(np.ones((2, 4), np.float32)).sum())
    )


LLVM = (
    "import sys, numpy, xlac; m = xlac.compile(sys.argv[1], dims={'n': 2}, "
    "threads=int(sys.argv[2]));"
    "print(float(m(numpy.ones((2, 4), numpy.float32)).sum()), 'llvmlite' in sys.modules)"
)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.sampled(4)
def test_kept_code_is_opened_without_llvm_where_it_was_linked(spec: Path, threads: str) -> None:
    command = [sys.executable, "-c", LLVM, str(spec), threads]
    cold, warm = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert (cold[1], warm[1], warm[0]) == ("True", "False", cold[0])
    for library in (spec.parent / "cache").rglob(shared.FILE):
        library.unlink()
    # compiled anew
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == cold
    )


def test_without_a_linker_kept_code_is_linked_by_llvm(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xlac_cpu.ahead.linker.OWN", ())
    monkeypatch.setenv("PATH", "")
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    assert not list((spec.parent / "cache").rglob(shared.FILE))
    np.testing.assert_array_equal(xlac.compile(spec, dims={"n": 2})(ROW), before)
    assert len(compiled) == 1
    for library in list((spec.parent / "cache").rglob("*.a")):
        shutil.rmtree(library.parent)
    np.testing.assert_array_equal(xlac.compile(spec, dims={"n": 2})(ROW), before)
    assert len(compiled) == 2, "the code is gone"


def test_xlac_run_takes_what_was_kept_and_keeps(
    spec: Path, compiled: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*more: str) -> str:
        assert status(["run", str(spec), "--dim", "n=2", "--input", "x=ones", *more]) == 0
        return capsys.readouterr().out

    first = run()
    assert run() == first
    assert len(compiled) == 1
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 1, "one question, one entry"
    run("--allow-outside")
    assert len(compiled) == 2, "what may be read from elsewhere is read"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs is asked")
@pytest.mark.parametrize("given", [None, "", "relative", "/somewhere"])
def test_the_cache_is_where_platformdirs_says(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    from platformdirs import user_cache_dir

    from xlac.settings import settings

    monkeypatch.delenv("XLAC_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if given is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert settings().cache == user_cache_dir("xlac", appauthor=False)


def test_constants_too_large_for_the_cache_are_not_kept(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE_BYTES", "200")
    xlac.compile(spec, dims={"n": 2})
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 2


def test_without_a_cache_nothing_is_kept(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    xlac.compile(spec, dims={"n": 2})
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 2


def test_models_are_compiled_and_arrays_ask_nothing(spec: Path, compiled: list[object]) -> None:
    from xlac.frontends.loader import load

    for _ in range(2):
        xlac.compile(load(spec, dims={"n": 2}))
    assert len(compiled) == 2
    assert compilations.question(spec, backend(), CompileOptions(params={"x": np.zeros(2)})) is None
