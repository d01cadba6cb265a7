"""Facts that the system reports of its processor (caches, lines, ways, sharers, pages), and how
many processors this process may use. Nothing is measured.

The names and units are those of `MachineFacts`; facts that a system does not report are absent.
Linux has them in /sys, macOS in sysctl.
"""

from __future__ import annotations

import os
import sys
from functools import cache

CACHES = "/sys/devices/system/cpu/cpu0/cache"
GROUP = "/sys/fs/cgroup"
SCALE = {"K": 10, "M": 20, "G": 30}
MOST_WAYS = 4096  # more ways are how some systems report a fully associative cache


@cache
def system_facts(folder: str = CACHES) -> dict[str, int]:
    """The facts that the system reports, by the names of `MachineFacts`; empty if there are
    none.
    """
    facts: dict[str, int] = {}
    for number in range(8):
        entry = f"{folder}/index{number}"
        kind = _text(f"{entry}/type")
        if not kind:
            break
        if kind != "Instruction":
            _add(facts, entry, _text(f"{entry}/level"))
    if not facts and sys.platform == "darwin":
        return _apple()
    if facts and "l3_bytes" not in facts and "l2_bytes" in facts:
        facts["l3_bytes"] = facts["l2_bytes"]  # the second-level cache is the last level
    if facts:
        facts["page_bytes"] = os.sysconf("SC_PAGE_SIZE")
    return facts


def processors() -> float:
    """The number of processors that this process may use: limited by its affinity and by a
    container's quota, which need not be an integer.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(float(bound or 1), quota())


def quota(group: str = GROUP) -> float:
    """The CPU quota of this process's control group, in processors; infinite without one."""
    words = _text(f"{group}/cpu.max").split()  # "max 100000" or "150000 100000"
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit():
        return int(words[0]) / max(1, int(words[1]))
    limit, period = (_text(f"{group}/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
    if limit.isdigit() and period.isdigit():
        return int(limit) / max(1, int(period))
    return float("inf")


def _add(facts: dict[str, int], entry: str, level: str) -> None:
    """Adds the facts of one data cache."""
    size = _text(f"{entry}/size")
    if level not in ("1", "2", "3") or not size[:-1].isdigit():
        return
    facts[f"l{level}_bytes"] = int(size[:-1]) << SCALE.get(size[-1], 0)
    ways, line = _text(f"{entry}/ways_of_associativity"), _text(f"{entry}/coherency_line_size")
    if level != "3" and ways.isdigit() and int(ways) <= MOST_WAYS:
        facts[f"l{level}_ways"] = int(ways)
    if level != "1":
        facts[f"l{level}_sharers"] = _members(_text(f"{entry}/shared_cpu_list"))
    if line.isdigit() and int(line):
        facts["line_bytes"] = int(line)


def _members(text: str) -> int:
    """The number of integers in a list such as `0-3,8`."""
    count = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            count += int(last) - int(first) + 1 if last.isdigit() else 1
    return count


def _text(file: str) -> str:
    """The text of a short file, stripped; empty where it cannot be read."""
    try:
        place = os.open(file, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(place, 256).decode("ascii", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(place)


def _apple() -> dict[str, int]:
    """The facts on macOS, for the performance cores where there are several kinds."""
    import subprocess

    names = {
        "l1_bytes": "hw.l1dcachesize",
        "l2_bytes": "hw.l2cachesize",
        "l3_bytes": "hw.l3cachesize",
        "line_bytes": "hw.cachelinesize",
        "page_bytes": "hw.pagesize",
    }
    facts = {}
    for name, key in names.items():
        answer = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, check=False)
        if answer.stdout.strip().isdigit() and int(answer.stdout):
            facts[name] = int(answer.stdout)
    if "l2_bytes" in facts:
        facts.setdefault("l3_bytes", facts["l2_bytes"])
    return facts
