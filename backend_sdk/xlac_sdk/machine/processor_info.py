"""What Linux says about this machine's processor."""

from __future__ import annotations

from functools import cache
from itertools import takewhile


@cache
def processor_info() -> dict[str, str]:
    """The fields of the first processor in /proc/cpuinfo (`model name`, `flags`, …; on Arm
    `Features`, `CPU part`), in the file's order; empty where there is no such file.
    """
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            # only the first: the kernel takes time to write each of many
            lines = list(takewhile(str.strip, file))
    except OSError:
        return {}
    parts = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, _, value in parts}
