"""Whole compilations on disk: found by what was asked, and only while everything that decides them
is the same.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import xlac
from xlac import driver
from xlac.cache import compilations, fingerprint
from xlac.cli import status
from xlac.options import CompileOptions
from xlac.runtime.compiled import Compiled
from xlac.support import dependencies
from xlac_cpu.run import shared

SPEC = """\
xlac: 1
model: small
dims: {n: {min: 1, max: 8, opt: 2}}
params: {scale: 3.0}
inputs: {x: 'f32[n, 4]'}
weights: {file: weights.safetensors}
graph:
  h: linear(x, units=5)
  y: h * $scale
outputs: [y]
"""
ROW = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spec with its weights in a file, and a cache of its own."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "small.yaml"
    file.write_text(SPEC)
    weights(tmp_path, 0)
    return file


def weights(folder: Path, seed: int) -> None:
    from safetensors.numpy import save_file

    made = np.random.default_rng(seed)
    save_file({"h.weight": made.standard_normal((5, 4)).astype(np.float32), "h.bias": np.zeros(5, np.float32)},
              folder / "weights.safetensors")  # fmt: skip


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the compiler is asked to compile, in order."""
    asked: list[object] = []
    real = driver.compile

    def compile(source: object, *args: Any, **named: Any) -> Any:
        asked.append(source)
        return real(source, *args, **named)

    monkeypatch.setattr(driver, "compile", compile)
    return asked


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
    "import sys, numpy, xlac; m = xlac.compile(sys.argv[1], dims={'n': 2}, threads=int(sys.argv[2]));"
    "print(float(m(numpy.ones((2, 4), numpy.float32)).sum()), 'llvmlite' in sys.modules)"
)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.sampled(2)
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


def test_an_entry_that_lost_a_file_is_made_again(spec: Path, compiled: list[object]) -> None:
    for constants in range(2):
        xlac.compile(spec, dims={"n": 2})
        xlac.compile(spec, dims={"n": 2})
        assert len(compiled) == 1 + constants
        (found,) = (spec.parent / "cache").glob(f"??/*/{compilations.CONSTANTS}")
        found.unlink()


@pytest.mark.parametrize(
    "other",
    [
        {"dims": {"n": 3}},
        {"params": {"scale": 2.0}},
        {"threads": 2},
        {"cpu": "x86-64-v3"},
        {"target": "c"},
    ],
)
def test_another_question_is_another_entry(
    spec: Path, compiled: list[object], other: dict[str, Any]
) -> None:
    xlac.compile(spec, dims={"n": 2})
    xlac.compile(spec, **{"dims": {"n": 2}, **other})
    assert len(compiled) == 2


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


def test_another_text_is_compiled_anew(spec: Path, compiled: list[object]) -> None:
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    spec.write_text(SPEC.replace("h * $scale", "h * $scale * 2.0"))
    np.testing.assert_allclose(xlac.compile(spec, dims={"n": 2})(ROW), 2 * before)
    assert len(compiled) == 2


def test_other_weights_are_compiled_anew(spec: Path, compiled: list[object]) -> None:
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    weights(spec.parent, 1)
    assert not np.allclose(xlac.compile(spec, dims={"n": 2})(ROW), before)
    assert len(compiled) == 2


def test_large_files_count_by_size_and_times(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dependencies, "HASHED", 0)
    settle(spec)
    xlac.compile(spec, dims={"n": 2})
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 1
    weights(spec.parent, 1)  # of the same size
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 2
    xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 3, (
        "a file written to just now may be written to again, and look the same"
    )


def settle(spec: Path) -> None:
    """Lets the clock of the file system go on, so that whoever writes to a file changes its times."""
    while (
        time.time_ns() - (spec.parent / "weights.safetensors").stat().st_ctime_ns
        < dependencies.TICK
    ):
        time.sleep(0.01)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("hashed", [0, dependencies.HASHED])
@pytest.mark.parametrize("file", ["small.yaml", "weights.safetensors"])
@pytest.mark.parametrize("when", ["before it is read", "after"])
@pytest.mark.parametrize("how", ["renamed", "in place", "twice"])
def test_what_changes_while_it_is_compiled_is_not_kept(
    how: str,
    when: str,
    file: str,
    hashed: int,
    spec: Path,
    compiled: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a file holds now is what the next compilation computes, however often and whenever
    it changed.
    """
    monkeypatch.setattr(dependencies, "HASHED", hashed)
    place = spec.parent / file
    first, made = place.read_bytes(), spec.parent / "made"
    if file == "small.yaml":
        second = first.replace(b"scale: 3.0", b"scale: 6.0")
    else:
        weights(spec.parent, 1)
        second = place.read_bytes()
        place.write_bytes(first)
    settle(spec)

    def put(data: bytes) -> None:
        if how == "renamed":
            made.write_bytes(data)
            made.replace(place)
        else:
            place.write_bytes(data)

    real = driver.lower if when == "after" else driver.load

    def changing(*args: Any, **named: Any) -> Any:
        if when == "before it is read":
            put(second)
        done = real(*args, **named)
        put(first if how == "twice" else second)
        return done

    with monkeypatch.context() as slow:
        slow.setattr(driver, real.__name__, changing)
        try:
            xlac.compile(spec, dims={"n": 2})
        except xlac.SourceError as error:  # part of the weights may be old, and part new
            assert "XL3015" in str(error) and how != "renamed" and file != "small.yaml"
    found = xlac.compile(spec, dims={"n": 2})(ROW)
    monkeypatch.setenv("XLAC_CACHE", "off")
    np.testing.assert_array_equal(found, xlac.compile(spec, dims={"n": 2})(ROW))


def test_weights_that_change_while_they_are_kept_are_not(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants are mapped from the file that they are copied from: half of them could be of
    another version.
    """
    settle(spec)
    real = compilations.write_constants

    def late(*args: Any) -> None:
        weights(spec.parent, 1)
        real(*args)

    with monkeypatch.context() as slow:
        slow.setattr(compilations, "write_constants", late)
        xlac.compile(spec, dims={"n": 2})
    assert not list((spec.parent / "cache").glob(f"??/*/{compilations.PROGRAM}"))


def test_every_version_of_the_weights_has_its_entry(spec: Path, compiled: list[object]) -> None:
    for seed in (0, 1, 0, 1, 1):
        weights(spec.parent, seed)
        xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 2


def test_another_compiler_or_machine_asks_anew(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    xlac.compile(spec, dims={"n": 2})
    for what in ("compiler", "machine"):
        with monkeypatch.context() as other:
            other.setattr(compilations, what, lambda *_: "another")
            xlac.compile(spec, dims={"n": 2})
    assert len(compiled) == 3


def test_a_changed_installation_is_another_compiler(tmp_path: Path) -> None:
    """Files that came, went or changed are seen, whatever Python keeps of them is not."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "one.py").write_text("1")
    seen = [sorted(fingerprint._files(str(tmp_path)))]
    for change in (
        lambda: (tmp_path / "inside" / "one.py").write_text("12"),
        lambda: (tmp_path / "inside" / "one.py").replace(tmp_path / "inside" / "two.py"),
        lambda: (tmp_path / "new.py").write_text(""),
    ):
        change()
        seen.append(sorted(fingerprint._files(str(tmp_path))))
    assert len({tuple(one) for one in seen}) == len(seen)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "new.pyc").write_text("")
    assert sorted(fingerprint._files(str(tmp_path))) == seen[-1]


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


@pytest.mark.parametrize("file", [compilations.PROGRAM, compilations.CONSTANTS])
@pytest.mark.parametrize("how", ["cut", "changed"])
def test_a_damaged_entry_is_thrown_away(
    spec: Path, compiled: list[object], file: str, how: str
) -> None:
    before = xlac.compile(spec, dims={"n": 2})(ROW)
    (place,) = (spec.parent / "cache").glob(f"??/*/{file}")
    data = place.read_bytes()
    place.write_bytes(
        data[: len(data) // 2] if how == "cut" else data[:-9] + bytes(reversed(data[-9:])) + b" "
    )
    np.testing.assert_array_equal(xlac.compile(spec, dims={"n": 2})(ROW), before)
    assert len(compiled) == 2


def test_entries_that_make_no_sense_are_not_believed(
    spec: Path, compiled: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    xlac.compile(spec, dims={"n": 2})
    (place,) = (spec.parent / "cache").glob(f"??/*/{compilations.PROGRAM}")
    whole = json.loads(place.read_text())
    monkeypatch.setattr("xlac.cache.store.whole", lambda file, told: True)
    for number, change in enumerate(
        ({"slots": 3}, {"inputs": [99]}, {"built_for": {}}, {"slots": [{}]}, {"facts": None}), 2
    ):
        place.write_text(json.dumps({**whole, **change}))
        assert compilations.load(cache_of(spec), place.parent.name, backend()) is None, number


def cache_of(spec: Path) -> Any:
    from xlac.cache.store import Cache

    return Cache(spec.parent / "cache", 1 << 30)


def backend() -> Any:
    from xlac_sdk.host.registry import find

    return find("cpu")


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


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The sizes of every model that is lowered, in order."""
    seen: list[object] = []
    real = driver.lower

    def lower(model: Any, *args: Any, **named: Any) -> Any:
        seen.append(model.inputs[0].shape)
        return real(model, *args, **named)

    monkeypatch.setattr(driver, "lower", lower)
    return seen


def test_of_open_sizes_the_program_of_each_is_kept(spec: Path, lowered: list[object]) -> None:
    first = xlac.compile(spec)
    rows = {n: np.arange(4 * n, dtype=np.float32).reshape(n, 4) for n in (1, 2, 5)}
    found = {n: first(row) for n, row in rows.items()}
    assert lowered == [(1, 4), (2, 4), (5, 4)]
    again = xlac.compile(spec)
    for n, row in rows.items():
        np.testing.assert_array_equal(again(row), found[n])
    np.testing.assert_array_equal(xlac.compile(spec, dims={"n": 2})(rows[2]), found[2])
    assert len(lowered) == 3, "all three were found, by whoever says the size too"
    again(np.zeros((3, 4), np.float32))
    assert lowered[3:] == [(3, 4)]


@pytest.mark.parametrize("change", ["other text", "no file"])
def test_a_model_that_was_read_before_a_change_is_compiled_as_it_was_read(
    spec: Path, lowered: list[object], change: str
) -> None:
    before = xlac.compile(spec)
    right = before(ROW)
    spec.write_text(SPEC.replace("scale: 3.0", "scale: 6.0"))
    after = xlac.compile(spec)
    np.testing.assert_array_equal(after(ROW), 2 * right)
    if change == "no file":
        spec.unlink()
    one = before(ROW[:1])
    np.testing.assert_allclose(one, right[:1], rtol=1e-6)
    if change == "other text":
        np.testing.assert_allclose(after(ROW[:1]), 2 * one, rtol=1e-6)
    assert len(lowered) == (4 if change == "other text" else 3)


def test_models_are_compiled_and_arrays_ask_nothing(spec: Path, compiled: list[object]) -> None:
    from xlac.frontends.loader import load

    for _ in range(2):
        xlac.compile(load(spec, dims={"n": 2}))
    assert len(compiled) == 2
    assert compilations.question(spec, backend(), CompileOptions(params={"x": np.zeros(2)})) is None


def test_one_program_for_all_sizes_where_that_is_asked_for(
    spec: Path, compiled: list[object]
) -> None:
    once = xlac.compile(spec, sizes="symbolic")
    assert isinstance(once, Compiled) and [size.name for size in once.program.sizes] == ["n"]
    for n in range(1, 9):
        row = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        np.testing.assert_allclose(once(row), xlac.compile(spec, dims={"n": n})(row), rtol=1e-5)
    assert len(compiled) == 9
    again = xlac.compile(spec, sizes="symbolic")
    assert (
        isinstance(again, Compiled)
        and again.program.sizes == once.program.sizes
        and len(compiled) == 9
    )
    (size,) = again.program.sizes
    assert (size.min, size.max, size.opt) == (1, 8, 2)
    for n in (1, 5, 8):
        row = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
        np.testing.assert_array_equal(again(row), once(row))
    with pytest.raises(xlac.SourceError, match=r"n=9 is outside its bounds 1\.\.8"):
        again(np.zeros((9, 4), np.float32))


def test_what_is_asked_of_sizes_is_part_of_the_question(spec: Path) -> None:
    asked = {
        compilations.question(spec, backend(), CompileOptions(sizes=sizes))
        for sizes in get_args(get_type_hints(CompileOptions)["sizes"])
    }
    assert len(asked) == 2


def test_state_begins_anew_in_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[object]
) -> None:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "total.yaml"
    file.write_text(
        "xlac: 1\nmodel: total\ninputs: {x: 'f32[]'}\nstate: {sum: {type: 'f32[]', next: y}}\ngraph: {y: sum + x}\noutputs: [y]\n"
    )
    first, second = xlac.compile(file), xlac.compile(file)
    assert len(compiled) == 1
    assert [float(first(np.float32(2))) for _ in range(3)] == [2, 4, 6]
    assert [float(second(np.float32(2))) for _ in range(3)] == [2, 4, 6]
    first.reset()
    assert float(first(np.float32(2))) == 2 and float(second(np.float32(2))) == 8
