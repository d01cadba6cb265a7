"""The cache on disk: hits, damage, bounds, several processes, and a process that is killed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac import driver
from xlac.cache.fingerprint import key_of
from xlac.cache.ledger import LEDGER
from xlac.cache.rooms import ROOM
from xlac.cache.seals import read_entry, signed
from xlac.cache.store import ArtefactEntry, Cache
from xlac.cli import status
from xlac.options import CompileOptions
from xlac.support.digest import digest
from xlac_cpu import CpuBackend
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request

SPEC = Path(__file__).parents[2] / "specs" / "mlp_small.yaml"
X = np.ones((1, 64), np.float32)


def compile(source: Path, **options: Any) -> Any:
    """As xlac.compile does when no whole compilation is kept: only code is looked up."""
    return driver.compile(source, "cpu", CompileOptions(**options))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One element for each time the cpu backend really built something."""
    found: list[int] = []
    build = CpuBackend.build

    def counted(self: CpuBackend, sources: Mapping[str, str], where: Path) -> Path:
        found.append(1)
        return build(self, sources, where)

    monkeypatch.setattr(CpuBackend, "build", counted)
    return found


def entries(folder: Path) -> list[Path]:
    return sorted(p for p in folder.glob("??/*") if p.is_dir())


def test_the_second_compilation_builds_nothing(folder: Path, builds: list[int]) -> None:
    first = compile(SPEC)(X)
    assert len(builds) == 1 and len(entries(folder)) == 1
    np.testing.assert_array_equal(compile(SPEC)(X), first)
    assert len(builds) == 1
    compile(SPEC, cpu="x86-64-v3")
    assert len(builds) == 2 and len(entries(folder)) == 2


def test_off_keeps_nothing(
    folder: Path, builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    for _ in range(2):
        compile(SPEC)(X)
    assert len(builds) == 2 and not folder.exists()


@pytest.mark.parametrize("harm", ["truncate", "change", "entry", "escape", "list"])
def test_a_damaged_entry_is_made_again(folder: Path, builds: list[int], harm: str) -> None:
    expected = compile(SPEC)(X)
    (place,) = entries(folder)
    (artifact,) = place.glob("*.a")
    match harm:
        case "truncate":
            artifact.write_bytes(artifact.read_bytes()[:100])
        case "change":
            data = bytearray(artifact.read_bytes())
            data[-1] ^= 1
            artifact.write_bytes(bytes(data))
        case "entry":
            (place / "entry.json").write_text("{")
        case "escape":
            entry = read_entry(str(place))
            outside = folder.parent / "evil.a"
            outside.write_bytes(artifact.read_bytes())
            entry["artifact"] = "../../../evil.a"
            (place / "entry.json").write_text(signed(entry))
        case "list":
            (place / "entry.json").write_text(f"{digest('[]')}\n[]")
    np.testing.assert_array_equal(compile(SPEC)(X), expected)
    assert len(builds) == 2


def test_a_folder_that_others_may_write_to_is_not_trusted(folder: Path, builds: list[int]) -> None:
    compile(SPEC)
    folder.chmod(0o777)
    compile(SPEC)(X)
    assert len(builds) == 2


def test_an_unwritable_folder_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "file" / "cache"))
    assert compile(SPEC)(X).shape == (1, 64)


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 1 << 20)
    backend = CpuBackend()

    def make(made: Path) -> Path:
        (made / "artifact").write_bytes(bytes(1_800))
        return made / "artifact"

    keys = [f"{i:02x}" * 32 for i in range(4)]
    for age, key in enumerate(keys):
        cache.keep(key, "p", backend, make)
        place = cache.folder / key[:2] / key
        when = time.time() - 1000 + age
        os.utime(place, (when, when))
    cache.find(keys[0])
    cache.collect(5_000)
    assert {e.key for e in cache.entries()} == {keys[0], keys[3]}


def test_only_a_cache_that_outgrew_its_bound_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And then it is brought some way below it, so that the next entries cost no search either."""
    cache, backend = Cache(tmp_path / "cache", 100_000), CpuBackend()
    searches: list[int] = []
    collect = Cache.collect

    def searched(self: Cache, limit: int | None = None, slack: int = 0) -> list[ArtefactEntry]:
        searches.append(slack)
        return collect(self, limit, slack)

    def make(made: Path) -> Path:
        (made / "artifact").write_bytes(bytes(1_000))
        return made / "artifact"

    def keep(number: int) -> None:
        key = f"{number:02x}" * 32
        assert cache.keep(key, "p", backend, make)
        os.utime(cache.folder / key[:2] / key, (1000 + number, 1000 + number))

    monkeypatch.setattr(Cache, "collect", searched)
    keep(0)
    assert len(searches) == 1, "nobody had counted"
    for number in range(1, 60):
        keep(number)
    assert len(searches) == 1
    (cache.folder / LEDGER).write_bytes(b"?\n")
    keep(60)
    assert len(searches) == 2, "the count was damaged"
    for number in range(61, 160):
        keep(number)
    held = sum(entry.nbytes for entry in cache.entries())
    assert 80_000 < held <= 100_000 and 3 <= len(searches) < 30
    assert Cache(cache.folder, 40_000).keep("ff" * 32, "p", backend, make)
    assert sum(entry.nbytes for entry in cache.entries()) <= 40_000, "another process has less"


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 1 << 20)

    def make(made: Path) -> Path:
        (made / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.keep("ab" * 32, "p", CpuBackend(), make)
    assert not [p for p in cache.folder.rglob("*") if p.is_file()]


CHILD = (
    "import sys, numpy, xlac; print(xlac.compile(sys.argv[1])(numpy.ones((1, 64), "
    "numpy.float32)).sum())"
)


def test_processes_share_it(folder: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(SPEC)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    sums = {child.communicate(timeout=1800)[0] for child in children}
    assert len(sums) == 1 and all(child.returncode == 0 for child in children)
    assert len(entries(folder)) == 3 and not list(folder.glob(f"{ROOM}*")), (
        "the code, the whole compilation, and what it was read from"
    )


def test_a_killed_process_leaves_no_half_entry(folder: Path) -> None:
    for delay in (0.15, 0.35, 0.5):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(SPEC)], stdout=subprocess.DEVNULL
        )
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert compile(SPEC)(X).shape == (1, 64)
    assert 1 <= len(entries(folder)) <= 3 and all(
        (place / "entry.json").is_file() for place in entries(folder)
    )


def test_the_key_knows_what_matters() -> None:
    backend = CpuBackend()
    here, other = backend.target(Request()), backend.target(Request(cpu="x86-64-v3"))
    keys = {
        key_of(backend, here, {"a": "x"}),
        key_of(backend, here, {"a": "y"}),
        key_of(backend, here, {"b": "x"}),
        key_of(backend, other, {"a": "x"}),
        key_of(backend, here, {"a": "x", "b": ""}),
    }
    assert len(keys) == 5 and key_of(backend, here, {"b": "1", "a": "2"}) == key_of(
        backend, here, {"a": "2", "b": "1"}
    )


def _fast(folder: Path) -> Path:
    """A model whose precision is a fact that the target is compiled with."""
    file = folder.parent / "fast.yaml"
    file.write_text(
        "xlac: 1\nmodel: fast\nprecision: fast\ninputs: {x: 'f32[8]'}\n"
        "graph: {y: exp(x)}\noutputs: [y]\n"
    )
    return file


def test_the_verbs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["cache", "why", str(SPEC)]) == 0
    assert "not in the cache" in capsys.readouterr().out
    compile(SPEC)
    assert status(["cache", "why", str(SPEC)]) == 0
    assert ": in the cache" in capsys.readouterr().out
    compile(fast := _fast(folder))
    assert status(["cache", "why", str(fast)]) == 0
    assert ": in the cache" in capsys.readouterr().out
    assert status(["cache", "ls"]) == 0
    assert "mlp_small" in capsys.readouterr().out
    assert status(["cache", "gc"]) == 0
    assert "0 entries removed, 0 B" in capsys.readouterr().out
    assert status(["cache", "clear"]) == 0
    assert " entries removed, " in capsys.readouterr().out
    assert status(["cache", "ls"]) == 0
    assert "0 entries," in capsys.readouterr().out


def test_a_cache_that_cannot_be_cleared_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compile(SPEC)

    def read_only(*_: object, **__: object) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", read_only)
    monkeypatch.setattr(os, "unlink", read_only)
    assert status(["cache", "clear"]) == 2
    told = capsys.readouterr()
    assert "0 entries removed" in told.out and f"is {folder} read-only?" in told.err


@pytest.mark.parametrize(("name", "value"), [("XLAC_THREADS", "many"), ("XLAC_CACHE_BYTES", "-1")])
def test_settings_that_make_no_sense(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SourceError, match=name):
        compile(SPEC)
