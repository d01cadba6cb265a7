"""The locations of NVIDIA's libraries: PyPI packages, an installed toolkit, or the
system's loader.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

FOLDERS = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/opt/cuda/lib64")


def files(name: str, packages: Sequence[str], versions: Sequence[int] = (13, 12)) -> Iterator[Path]:
    """Candidate files of a library, newest first in each place: paths, then versioned names for the
    loader.
    """
    for package in packages:
        for folder in _package(package):
            yield from _newest(folder, name)
    homes = [
        Path(home) / "lib64" for key in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(key))
    ]
    for folder in (*homes, *map(Path, FOLDERS)):
        yield from _newest(folder, name)
    for major in versions:
        yield Path(f"lib{name}.so.{major}")


def _package(name: str) -> list[Path]:
    """The folders of a package, without importing it; NVIDIA's have no code."""
    parent, *inner = name.split(".")
    spec = (
        importlib.util.find_spec(parent)
        if parent not in sys.modules
        else sys.modules[parent].__spec__
    )
    places = (spec.submodule_search_locations if spec is not None else None) or []
    return [Path(place, *inner) for place in places]


def _newest(folder: Path, name: str) -> list[Path]:
    libraries = [
        p for p in folder.glob(f"lib{name}.so.*") if re.fullmatch(rf"lib{name}\.so\.\d+", p.name)
    ]
    return sorted(libraries, key=lambda p: -int(p.suffix[1:]))
