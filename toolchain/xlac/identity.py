"""What identifies the compiler and the processor: what was compiled by one, or for one, is not taken for another's."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from itertools import takewhile

import numpy as np

from xlac.digest import digest
from xlac_sdk.backend import Backend


def compiler(backend: Backend) -> str:
    """What identifies the compiler: the files of its packages, and of those that the backend relies on."""
    return _compiler((type(backend).__module__.partition(".")[0], *backend.relies_on))


@cache
def _compiler(packages: tuple[str, ...]) -> str:
    facts = [f"{sys.implementation.cache_tag} {np.__version__}"]
    for package in ("xlac", "xlac_sdk", *packages):
        spec = find_spec(package)
        for root in spec.submodule_search_locations or () if spec else ():
            facts += sorted(_files(root))
    return digest("\n".join(facts))


def _files(folder: str) -> list[str]:
    """Names, sizes and times of the files of a package; caches of Python's aside."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                facts = entry.stat()
                found.append(f"{entry.path} {facts.st_size} {facts.st_mtime_ns}")
            elif entry.name != "__pycache__":
                found += _files(entry.path)
    return found


@cache
def machine() -> str:
    """What identifies this processor, whose features decide what code is made for it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = list(takewhile(str.strip, file))  # of many, each of which takes time to be told
        told = [line for line in first if line.split("\t")[0].strip() in ("model name", "flags", "Features", "CPU part")]
    except OSError:
        import platform

        told = [platform.machine(), platform.processor()]
    return digest(sys.platform, str(sys.maxsize), *told)
