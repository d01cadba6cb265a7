"""The cache on a disk that fails, lies or is gone: no result changes, no compilation fails, and
nothing stays broken.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from faulty_disk import ERRORS, FaultyDisk, Killed

import xlac
from xlac.cache import seals
from xlac.cache.rooms import MARK, ROOM
from xlac.cache.seals import ENTRY, read_entry, signed
from xlac.cache.store import Cache
from xlac_reference import BACKEND

KEY, OTHER = "ab" * 32, "cd" * 32
SMALL, LARGE = bytes(range(200)), bytes(range(256)) * 64
SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of some kilobytes are large ones."""
    monkeypatch.setattr(seals, "SEALED", 1000)
    monkeypatch.setattr(seals, "ROWS", 2)


def write(folder: Path) -> Path:
    (folder / "deep").mkdir()
    (folder / "deep" / "small").write_bytes(SMALL)
    (folder / "large").write_bytes(LARGE)
    return folder / "large"


def use(cache: Cache, key: str = KEY) -> str | None:
    """What a compilation does: looks, and keeps what it did not find."""
    return cache.find(key) or cache.keep(key, "p", BACKEND, write)


def is_right(artifact: str) -> bool:
    return (
        Path(artifact).read_bytes() == LARGE
        and Path(artifact).with_name("deep").joinpath("small").read_bytes() == SMALL
    )


def prepare(root: Path, state: str) -> Cache:
    """A cache in some state, whose limit is one entry."""
    cache = Cache(root, 30_000)
    if state == "none":
        return cache
    for key in (KEY, OTHER):
        assert cache.keep(key, "p", BACKEND, write)
    place = root / KEY[:2] / KEY
    match state:
        case "damaged":
            (place / "deep" / "small").write_bytes(b"")
        case "without entry":
            (place / ENTRY).unlink()
        case "moved":  # as a copy is, or what was there before the machine was booted
            os.utime(place / "large", (1, 1))
        case "full":
            for number, key in enumerate((KEY, OTHER)):
                os.utime(root / key[:2] / key, (1000 + number, 1000 + number))
            room = root / f"{ROOM}left"
            room.mkdir()
            (room / MARK).touch()
            os.utime(room, (1, 1))
            (place / "large").unlink()
    return cache


STATES = ("none", "whole", "damaged", "without entry", "moved", "full")


def faults(cache: Cache, disk: FaultyDisk) -> Iterator[int]:
    """Every number of a call, one after the other, until there are no more."""
    number = 0
    while number == 0 or number <= disk.calls:
        yield number
        number += 1


@pytest.mark.sampled(96)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "persistent"])
@pytest.mark.parametrize("error", [*(errno.errorcode[e] for e in ERRORS), "killed"])
def test_any_call_may_fail(state: str, persistent: bool, error: str, tmp_path: Path) -> None:
    tried = 0
    disk = FaultyDisk(tmp_path)
    for number in faults(Cache(tmp_path, 0), disk):
        root = tmp_path / str(number)
        cache = prepare(root, state)
        found = None
        try:
            with disk.failing(number, getattr(errno, error, None), persistent):
                found = use(cache)
        except Killed:
            assert error == "killed"
        assert found is None or is_right(found), "what is found is right"
        again = use(Cache(root, 30_000))
        assert again is not None and is_right(again), "and later all is as if nothing had been"
        for place in root.glob("??/*"):
            found = cache.find(place.name)
            assert found is not None and is_right(found), "no half of an entry is left"
        rooms = list(root.glob(f"{ROOM}*"))
        assert error == "killed" or persistent or len(rooms) <= 1, (
            "what could not be removed is one room at most"
        )
        shutil.rmtree(root)
        tried += 1
    assert tried > 8, "there was something to fail"


def ranges(size: int) -> Iterator[tuple[int, int]]:
    step = max(1, size // 40)
    yield from ((at, at + 1) for at in range(0, size, step))
    yield from ((at, min(size, at + 3 * step)) for at in range(0, size, 2 * step))
    yield 0, size


@pytest.mark.sampled(8)
@pytest.mark.parametrize("file", [ENTRY, "deep/small", "large"])
@pytest.mark.parametrize("how", ["zero", "flip", "cut", "longer", "swapped"])
def test_damage_of_any_bytes_is_seen(file: str, how: str, tmp_path: Path) -> None:
    cache = Cache(tmp_path, 1 << 20)
    place = tmp_path / KEY[:2] / KEY
    for start, stop in ranges((Path(use(cache) or "").parent / file).stat().st_size):
        assert use(cache)
        facts, data = (place / file).stat(), bytearray((place / file).read_bytes())
        whole = bytes(data)
        match how:
            case "zero":
                data[start:stop] = bytes(stop - start)
            case "flip":
                data[start:stop] = bytes(b ^ 0x10 for b in data[start:stop])
            case "cut":
                del data[start:]
            case "longer":
                data += b"\n"
            case "swapped":
                data[start:stop] = reversed(data[start:stop])
        (place / file).write_bytes(data)
        # as if nobody had written
        os.utime(place / file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        found = cache.find(KEY)
        assert (found is None) == (bytes(data) != whole), (start, stop)


def test_a_file_more_or_less_is_damage(tmp_path: Path) -> None:
    cache, place = Cache(tmp_path, 1 << 20), tmp_path / KEY[:2] / KEY
    assert use(cache)
    (place / "code.so").write_bytes(b"planted")
    assert cache.find(KEY) is None
    assert use(cache)
    (place / "deep" / "small").unlink()
    assert cache.find(KEY) is None and not place.exists()


def test_a_large_file_is_read_once_after_it_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    sums = seals.sums
    monkeypatch.setattr(seals, "sums", lambda file: read.append(file) or sums(file))
    cache = Cache(tmp_path, 1 << 20)
    assert use(cache) and len(read) == 1
    assert cache.find(KEY) and len(read) == 1, "its size and times are those recorded"
    os.utime(tmp_path / KEY[:2] / KEY / "large", (1, 1))
    assert cache.find(KEY)
    count = len(read)
    assert count > 1 and cache.find(KEY) and len(read) == count, "the new ones were recorded"


@pytest.mark.parametrize("boot", ["another", ""])
def test_times_count_only_since_the_machine_was_booted(
    boot: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a machine that lost its power had not yet written has the right size and times, and
    holds zeros.
    """
    cache = Cache(tmp_path, 1 << 20)
    assert use(cache)
    place = tmp_path / KEY[:2] / KEY
    (place / "large").write_bytes(bytes(len(LARGE)))
    facts = (place / "large").stat()
    told = [facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino]
    entry = read_entry(str(place))
    entry["files"]["large"][2:5] = told
    (place / ENTRY).write_text(signed(entry))
    assert cache.find(KEY), "while it runs, times tell: the point of them"
    monkeypatch.setattr(seals, "_boot", lambda: boot)
    assert cache.find(KEY) is None


def test_only_our_own_rooms_are_swept(tmp_path: Path) -> None:
    """Folders that look like another program's, or somebody's, stay however old they are."""
    cache = Cache(tmp_path, 0)
    theirs = [
        tmp_path / name
        for name in ("tmp-mine", f"{ROOM}mine", "ab/notes", f"ab/{'0' * 63}g", "notes/" + "0" * 64)
    ]
    for folder in theirs:
        folder.mkdir(parents=True)
        (folder / "thesis.txt").write_text("years of work")
    ours = tmp_path / f"{ROOM}ours"
    ours.mkdir()
    (ours / MARK).touch()
    link = tmp_path / f"{ROOM}link"
    link.symlink_to(theirs[0])
    (theirs[0] / MARK).touch()
    for folder in (*theirs, ours):
        os.utime(folder, (1, 1))
    cache.collect(0)
    assert (
        all((folder / "thesis.txt").exists() for folder in theirs)
        and link.is_symlink()
        and not ours.exists()
    )


@pytest.mark.parametrize("state", ["whole", "damaged", "without entry", "full"])
def test_a_full_disk_can_be_cleared(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no folder can be made any more, entries can still be removed, and what a link leads to
    stays.
    """
    cache, theirs = prepare(tmp_path / "cache", state), tmp_path / "theirs"
    theirs.mkdir()
    (theirs / ENTRY).write_text("somebody's")
    (tmp_path / "cache" / "00").mkdir()
    (tmp_path / "cache" / "00" / ("00" * 32)).symlink_to(theirs)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "mkdir", full)
    if state != "whole":
        assert cache.find(KEY) is None and not (tmp_path / "cache/ab" / KEY).exists()
    cache.collect(0)
    assert not [*(tmp_path / "cache").glob("ab/*"), *(tmp_path / "cache").glob("cd/*")]
    assert (theirs / ENTRY).read_text() == "somebody's"


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    return SPECS / "mlp_small.yaml"


@pytest.mark.sampled(40)
@pytest.mark.parametrize("state", ["cold", "warm"])
@pytest.mark.parametrize("error", [*(errno.errorcode[e] for e in ERRORS[:4]), "killed"])
@pytest.mark.parametrize("part", range(4))
def test_a_compilation_needs_no_cache(
    state: str, error: str, part: int, spec: Path, tmp_path: Path
) -> None:
    """Of the calls of a whole compilation, every fourth in turn."""
    x = np.ones((1, 64), np.float32)
    disk, root = FaultyDisk(tmp_path / "cache"), tmp_path / "cache"
    right = xlac.compile(spec)(x)
    if state == "cold":
        shutil.rmtree(root)
    with disk.failing():
        np.testing.assert_array_equal(xlac.compile(spec)(x), right)
    calls = disk.calls
    assert calls > 20
    for number in range(part, calls, 4 if state == "warm" else 12):
        if state == "cold":
            shutil.rmtree(root, ignore_errors=True)
        try:
            with disk.failing(number, getattr(errno, error, None), persistent=number % 3 == 0):
                np.testing.assert_array_equal(xlac.compile(spec)(x), right)
        except Killed:
            assert error == "killed"
        np.testing.assert_array_equal(xlac.compile(spec)(x), right)
