"""Files have at most 300 lines and functions at most 60, everywhere in the tree; a folder has at
most 20 modules.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "toolchain/xlac",
    "backend_sdk/xlac_sdk",
    "backends/c/xlac_c",
    "backends/cpu/xlac_cpu",
    "backends/cuda/xlac_cuda",
    "backends/reference/xlac_reference",
    "runtime/xlac_runtime",
    "examples",
    "bench",
    "tests",
)
FILE, FUNCTION, FOLDER = 300, 60, 20
NOT_OURS = ("bench/peers",)

LONG_FUNCTIONS = {"toolchain/xlac/api.py: compile": "half of it says what each of its options does"}
"""Functions that are long for a reason."""


def files(folder: str) -> Iterator[Path]:
    """The Python files that are ours in a folder."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith(NOT_OURS) and not any(p.startswith(".") for p in file.parts):
            yield file


def long_files(folder: str) -> dict[str, int]:
    """The files of a folder that are too long, with their lines."""
    lengths = {
        file.relative_to(ROOT).as_posix(): file.read_bytes().count(b"\n") for file in files(folder)
    }
    return {name: lines for name, lines in lengths.items() if lines > FILE}


def long_functions(folder: str) -> dict[str, int]:
    """The functions of a folder that are too long, with their lines."""
    found = {}
    for file in files(folder):
        text = file.read_text("utf-8")
        if text.count("\n") < FUNCTION:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION:
                    found[f"{file.relative_to(ROOT).as_posix()}: {node.name}"] = lines
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_are_short(folder: str) -> None:
    assert not long_files(folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short(folder: str) -> None:
    found = long_functions(folder)
    for name in LONG_FUNCTIONS:
        if name.startswith(f"{folder}/"):
            del found[name]  # KeyError: it is short by now
    assert not found


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_have_rooms(folder: str) -> None:
    """At most 20 modules lie beside each other; a package's `__init__` is none of them."""
    count = Counter(f.parent for f in files(folder) if f.name != "__init__.py")
    full = {str(place.relative_to(ROOT)): n for place, n in count.items() if n > FOLDER}
    assert not full, full
