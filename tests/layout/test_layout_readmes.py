"""The files that the READMEs of the SDK and the backends name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "backend_sdk": "xlac_sdk",
    "backends/c": "xlac_c",
    "backends/cpu": "xlac_cpu",
    "backends/cuda": "xlac_cuda",
    "backends/reference": "xlac_reference",
    "runtime": "xlac_runtime",
}


@pytest.mark.parametrize("folder", PACKAGES)
def test_files_in_tables_and_paths_in_text_exist(folder: str) -> None:
    """In the first column of tables every file, elsewhere those with a folder."""
    text = (ROOT / folder / "README.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+\w+\.(?:py|ll|ptx|cuh))`", text))
    for line in text.splitlines():
        if line.startswith("|"):
            named |= set(re.findall(r"`([\w/]+\.(?:py|ll|ptx|cuh))`", line.split("|")[1]))
    places = [ROOT / folder / PACKAGES[folder], ROOT / folder, ROOT, ROOT / "backend_sdk"]
    places += [ROOT / "toolchain", ROOT / "backends/cuda"]
    missing = [name for name in sorted(named) if not any((p / name).is_file() for p in places)]
    assert not missing
