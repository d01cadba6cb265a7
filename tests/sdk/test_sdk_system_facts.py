"""What a system tells of its processor, from recorded files."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlac_sdk.machine.system_facts import processors, quota, system_facts
from xlac_sdk.machine_facts import LIMITS

ZEN3 = {
    "index0": ("1", "Data", "32K", "8", "64", "0"),
    "index1": ("1", "Instruction", "64K", "16", "64", "0"),
    "index2": ("2", "Unified", "512K", "8", "64", "0-1"),
    "index3": ("3", "Unified", "32768K", "16", "64", "0-7,64-71"),
}
NAMES = ("level", "type", "size", "ways_of_associativity", "coherency_line_size", "shared_cpu_list")


def recorded(folder: Path, caches: dict[str, tuple[str, ...]]) -> str:
    for name, words in caches.items():
        (folder / name).mkdir()
        for file, word in zip(NAMES, words, strict=True):
            (folder / name / file).write_text(word + "\n")
    return str(folder)


def test_caches_are_read(tmp_path: Path) -> None:
    found = system_facts(recorded(tmp_path, ZEN3))
    page = found.pop("page_bytes")
    assert LIMITS["page_bytes"].holds(page)
    assert found == {
        "l1_bytes": 32 << 10,
        "l1_ways": 8,
        "l2_bytes": 512 << 10,
        "l2_ways": 8,
        "l2_sharers": 2,
        "l3_bytes": 32 << 20,
        "l3_sharers": 16,
        "line_bytes": 64,
    }


def test_a_second_cache_before_memory_is_the_last(tmp_path: Path) -> None:
    found = system_facts(recorded(tmp_path, {k: v for k, v in ZEN3.items() if k != "index3"}))
    assert found["l3_bytes"] == 512 << 10 and "l3_sharers" not in found


@pytest.mark.parametrize(
    "size,ways,line,left",
    [("", "8", "64", {"l1_bytes", "l1_ways", "line_bytes"}), ("32K", "", "64", {"l1_ways"}),
     ("32K", "65535", "64", {"l1_ways"}), ("32K", "8", "0", {"line_bytes"}),
     ("big", "8", "64", {"l1_bytes", "l1_ways", "line_bytes"})],
)  # fmt: skip
def test_what_is_not_told_is_left_out(
    tmp_path: Path, size: str, ways: str, line: str, left: set[str]
) -> None:
    found = system_facts(recorded(tmp_path, {"index0": ("1", "Data", size, ways, line, "0")}))
    assert not left & found.keys()
    assert all(LIMITS[name].holds(value) for name, value in found.items())


def test_a_system_without_the_files_tells_nothing(tmp_path: Path) -> None:
    assert not {"l1_ways", "l2_sharers"} & system_facts(str(tmp_path)).keys()


@pytest.mark.parametrize(
    "new,old,wanted",
    [("max 100000", None, float("inf")), ("150000 100000", None, 1.5), (None, "200000", 2.0),
     (None, "-1", float("inf")), (None, None, float("inf")), ("", "", float("inf"))],
)  # fmt: skip
def test_quotas(tmp_path: Path, new: str | None, old: str | None, wanted: float) -> None:
    (tmp_path / "cpu").mkdir()
    files = (tmp_path / "cpu.max", tmp_path / "cpu" / "cpu.cfs_quota_us")
    for file, text in zip(files, (new, old), strict=True):
        if text is not None:
            file.write_text(text + "\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert quota(str(tmp_path)) == wanted


def test_some_processor_may_be_used() -> None:
    assert processors() > 0
