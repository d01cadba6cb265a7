"""Weights in files that change under a loaded model: said at the next call, or of no consequence;
never other numbers, never a signal.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
import xlac_runtime
from xlac import driver
from xlac.cli import root, status
from xlac_sdk.source import SourceError

ROWS, COLUMNS = 1024, 512  # 2 MiB: mapped, not copied
HEAD = (
    "xlac: 1\nmodel: m\nweights: w.safetensors\ndims: {n: {min: 1, max: 8, opt: 1}}\ninputs: "
    "{i: 'i32[n]'}\n"
)
LOOKUP = HEAD + "graph:\n  w: {op: weight, type: 'f32[1024, 512]'}\n  h: w[i]\noutputs: [h]\n"
DOT = HEAD + (
    "graph:\n  w: {op: weight, type: 'f32[1024, 512]'}\n  h: cast(broadcast(i[0], [8, 1024]), "
    "dtype=f32) @ w\noutputs: [h]\n"
)
IDS = np.array([1000], np.int32)


def save(file: Path, value: float, rows: int = ROWS) -> None:
    from safetensors.numpy import save_file

    save_file({"w": np.full((rows, COLUMNS), value, np.float32)}, file)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLAC_CACHE", "off")
    save(tmp_path / "w.safetensors", 1.0)
    (tmp_path / "m.yaml").write_text(LOOKUP)
    return tmp_path / "m.yaml"


def _touched(file: Path) -> None:
    facts = file.stat()
    # later than the clock of any file system steps
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10_000_000))


def overwrite(file: Path) -> None:
    with file.open("r+b") as data:
        data.seek(200)
        data.write(bytes(file.stat().st_size - 200))
    _touched(file)


def truncate(file: Path) -> None:
    os.truncate(file, 100)


def append(file: Path) -> None:
    with file.open("ab") as data:
        data.write(b"\0")


def _fixed(spec: Path, **more: Any) -> Any:
    return xlac.compile(spec, dims={"n": 1}, **more)


def _specialized(spec: Path, **more: Any) -> Any:
    return xlac.compile(spec, **more)


def _symbolic(spec: Path, **more: Any) -> Any:
    return xlac.compile(spec, sizes="symbolic", **more)


def _threads(spec: Path, **more: Any) -> Any:
    return xlac.compile(spec, dims={"n": 1}, threads=2, **more)


def _built(spec: Path, open: Callable[..., Any], **more: Any) -> Any:
    out = spec.parent / "out"
    if not out.exists():
        root.main(
            ["build", str(spec), "-o", str(out), "--weights", "mmap", "--dim", "n=1"],
            standalone_mode=False,
        )
    return open(out, **more)


def _loaded(spec: Path, **more: Any) -> Any:
    return _built(spec, xlac.load, **more)


def _runtime(spec: Path, **more: Any) -> Any:
    return _built(spec, xlac_runtime.load, **more)


def _file(spec: Path, way: Callable[..., Any]) -> Path:
    (file,) = (
        (spec.parent / "out").glob("*.weights")
        if way in (_loaded, _runtime)
        else (spec.parent / "w.safetensors",)
    )
    return file


WAYS = (_fixed, _specialized, _symbolic, _threads, _loaded, _runtime)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("harm", [overwrite, truncate, append])
@pytest.mark.parametrize("calls", [1, 20])  # enough for the quick call to be made
def test_a_file_that_was_written_to_is_an_error(
    way: Callable[..., Any], harm: Callable[[Path], None], calls: int, spec: Path
) -> None:
    model = way(spec)
    for _ in range(calls):
        np.testing.assert_array_equal(model(IDS), np.ones((1, COLUMNS)))
    harm(_file(spec, way))
    for _ in range(2):
        with pytest.raises(SourceError, match="XL3017"):
            model(IDS)
    if hasattr(model, "run"):
        with pytest.raises(SourceError, match="XL3017"):
            model.run({"i": IDS}, {"h": np.empty((1, COLUMNS), np.float32)})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_was_replaced_is_no_concern(way: Callable[..., Any], spec: Path) -> None:
    model = way(spec)
    model(IDS)
    file = _file(spec, way)
    (spec.parent / "new").write_bytes(bytes(file.stat().st_size))
    (spec.parent / "new").replace(file)
    np.testing.assert_array_equal(model(IDS), np.ones((1, COLUMNS)))
    file.unlink()
    np.testing.assert_array_equal(model(IDS), np.ones((1, COLUMNS)))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("harm", [overwrite, truncate])
@pytest.mark.parametrize("cache", ["off", "on"])
def test_copied_weights_stay(
    way: Callable[..., Any],
    harm: Callable[[Path], None],
    cache: str,
    spec: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off" if cache == "off" else str(spec.parent / "cache"))
    kept = way(spec, copy_weights=True) if cache == "on" else None  # the next comes from the cache
    model = way(spec, copy_weights=True)
    if way is not _specialized:  # whose programs are made when they are called
        harm(_file(spec, way))
        for file in spec.parent.glob("cache/??/*/constants.bin"):
            harm(file)
    for one in filter(None, (model, kept)):
        np.testing.assert_array_equal(one(IDS), np.ones((1, COLUMNS)))


def test_small_weights_are_copied_anyway(spec: Path) -> None:
    save(spec.parent / "w.safetensors", 1.0, rows=16)
    spec.write_text(LOOKUP.replace("1024", "16"))
    model = _fixed(spec)
    truncate(spec.parent / "w.safetensors")
    np.testing.assert_array_equal(model(np.zeros(1, np.int32)), np.ones((1, COLUMNS)))


@pytest.mark.parametrize("text", [DOT, LOOKUP])
def test_a_file_that_is_written_to_while_it_is_compiled(
    text: str, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part of the weights that a program holds would be old, and part new."""
    spec.write_text(text)
    real = driver.lower

    def lower(*args: Any, **named: Any) -> Any:
        made = real(*args, **named)
        overwrite(spec.parent / "w.safetensors")
        return made

    monkeypatch.setattr(driver, "lower", lower)
    with pytest.raises(SourceError, match="XL3015"):
        _fixed(spec)
    save(spec.parent / "w.safetensors", 1.0)
    model = _specialized(spec)
    with pytest.raises(SourceError, match="XL3017"):
        model(IDS)


def test_the_command_copies_them_too(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from xlac.runtime.compiled import Compiled

    real = Compiled.__call__

    def late(self: Compiled, *args: Any, **named: Any) -> Any:
        overwrite(spec.parent / "w.safetensors")
        return real(self, *args, **named)

    monkeypatch.setattr(Compiled, "__call__", late)
    command = ["run", str(spec), "--dim", "n=1", "--input", "i=1xi32=1000"]
    assert status(command) == 2 and "XL3017" in capsys.readouterr().err
    save(spec.parent / "w.safetensors", 1.0)
    assert status([*command, "--copy-weights"]) == 0 and "[[1. 1." in capsys.readouterr().out


@pytest.mark.parametrize("command", ["bench", "profile"])
def test_commands_that_measure_copy_them_too(
    command: str, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that looks at a file that was written to is refused; copies are not looked at."""
    from xlac.runtime.compiled import Compiled

    real = Compiled.__call__

    def late(self: Compiled, *args: Any, **named: Any) -> Any:
        overwrite(spec.parent / "w.safetensors")
        return real(self, *args, **named)

    monkeypatch.setattr(Compiled, "__call__", late)
    given = [command, str(spec), "--dim", "n=1", "--seconds", "0.01"]
    assert status(given) == 2
    save(spec.parent / "w.safetensors", 1.0)
    assert status([*given, "--copy-weights"]) == 0


def descriptors() -> int:
    """The files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists open files")
@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("cached", [False, True])
def test_programs_share_the_descriptors_of_their_files(
    cached: bool, target: str, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may have 64 programs, a process many models, and systems allow 256 open files."""
    if cached:
        monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    spec.write_text(LOOKUP)
    gc.collect()
    before, models = descriptors(), []
    for again in range(1 + cached):  # the second time from the cache
        for n in range(1, 9):
            models.append(xlac.compile(spec, target, dims={"n": n}))
            assert (models[-1](np.full(n, 1000, np.int32)) == 1).all(), again
    assert descriptors() - before <= 1
    models.clear()
    gc.collect()
    assert descriptors() <= before


def test_a_file_that_was_written_to_is_mapped_anew(spec: Path) -> None:
    first, weights = _fixed(spec), spec.parent / "w.safetensors"
    overwrite(weights)
    second = _fixed(spec)
    assert (second(IDS) == 0).all()
    with pytest.raises(SourceError, match="XL3017"):
        first(IDS)
    overwrite(weights)
    with pytest.raises(SourceError, match="XL3017"):
        second(IDS)
