"""Weights in mapped files stay in memory no longer than they are read."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from xlac_sdk.support.mapping import forget

PAGES = 64


def resident() -> int:
    """Bytes of files in this process's memory."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("RssFile")
    )
    return int(line.split()[1]) << 10


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "weights"
    made.write_bytes(np.arange(PAGES * mmap.PAGESIZE, dtype=np.uint8).tobytes())
    return made


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux says what of a file is in memory"
)
def test_what_was_read_is_forgotten_and_can_be_read_again(file: Path) -> None:
    array = np.memmap(file, np.uint8, "r")[100:-100].reshape(2, -1)
    total = int(array.sum(dtype=np.int64))
    before = resident()
    forget(array)
    assert before - resident() >= (PAGES - 2) * mmap.PAGESIZE
    assert int(array.sum(dtype=np.int64)) == total


def test_what_was_written_to_a_private_mapping_stays(file: Path) -> None:
    array = np.memmap(file, np.uint8, "c")
    array[:] = 7
    seen = array[10:-10]
    seen.flags.writeable = False
    forget(seen)
    assert (array == 7).all()


@pytest.mark.parametrize(
    "array",
    [np.zeros(0), np.ones(5000), np.frombuffer(bytes(9000), np.uint8)],
    ids=["none", "own", "bytes"],
)
def test_arrays_elsewhere_are_left_alone(array: np.ndarray) -> None:
    before = array.copy()
    forget(array)
    np.testing.assert_array_equal(array, before)
