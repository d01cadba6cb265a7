"""LLVM's pages are given back to the system, and it works as before."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from xlac_cpu import objects, resident
from xlac_cpu.machine import host

TEXT = "define i32 @two() {\n  ret i32 2\n}\n"


def mapped() -> int:
    """Bytes of LLVM's library that this process has in memory as the file has them."""
    total, own = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            own = "libllvmlite" in line
        elif own and (found := re.match(r"(Rss|Private_Dirty): +(\d+) kB", line)):
            total += (1 if found[1] == "Rss" else -1) * 1024 * int(found[2])
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are not asked")
def test_pages_of_llvm_are_given_back_and_come_again() -> None:
    code = objects.compile_here(TEXT, host())
    before = mapped()
    assert before > 10 << 20
    resident.give_back()
    assert mapped() < before / 4
    assert objects.compile_here(TEXT, host()) == code
    assert mapped() > 1 << 20


def test_where_nothing_is_known_of_the_library_nothing_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "another")
    resident._unwritten.cache_clear()
    try:
        assert resident._unwritten() == ()
        resident.give_back()
    finally:
        resident._unwritten.cache_clear()
