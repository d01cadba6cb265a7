"""Files have at most 300 lines, functions at most 60 unless their docstrings say why not, and
folders at most 20 files, everywhere in the tree.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from outlines import outline

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

REASON = "Long because "
"""How the docstring of a function begins to say why it is long."""


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


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All in a tree but expressions, which are most of it and have no statements inside."""
    for inside in ast.iter_child_nodes(tree):
        if not isinstance(inside, ast.expr):
            yield inside
            yield from statements(inside)


def functions(folder: str) -> Iterator[tuple[str, int, bool]]:
    """The functions of a folder: name, number of lines, and whether a reason for it is given."""
    for file in files(folder):
        if file.read_bytes().count(b"\n") < FUNCTION:
            continue
        for node in statements(outline(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                name = f"{file.relative_to(ROOT).as_posix()}: {node.name}"
                yield name, lines, REASON in (ast.get_docstring(node) or "")


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_are_short(folder: str) -> None:
    assert not long_files(folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short_or_say_why_not(folder: str) -> None:
    known = list(functions(folder))
    long = {name: lines for name, lines, why in known if lines > FUNCTION and not why}
    assert not long
    excused = {name for name, lines, why in known if why and lines <= FUNCTION}
    assert not excused, "these are short: they need no reason"


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_have_rooms(folder: str) -> None:
    count = Counter(f.parent for f in files(folder))
    full = {str(place.relative_to(ROOT)): n for place, n in count.items() if n > FOLDER}
    assert not full, full
