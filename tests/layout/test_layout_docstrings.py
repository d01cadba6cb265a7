"""Public functions and classes say what they are for: in folders that are done all of them, and
nowhere fewer than before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from outlines import outline
from test_layout_lengths import statements

ROOT = Path(__file__).parents[2]
# how many still have none, by folder; a number here may only become smaller
WITHOUT = {
    "toolchain/xlac": 0,
    "backend_sdk/xlac_sdk": 0,
    "backends/c/xlac_c": 0,
    "backends/cpu/xlac_cpu": 0,
    "backends/cuda/xlac_cuda": 0,
    "backends/opencl/xlac_opencl": 0,
    "backends/reference/xlac_reference": 0,
    "runtime/xlac_runtime": 0,
    "specs": 0,
    "bench": 0,
}
NOT_OURS = "bench/peers"  # the suite as it was given
Public = ast.FunctionDef | ast.ClassDef


def files(folder: str) -> Iterator[Path]:
    """The Python files of a folder that are ours and no part of an environment."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        name = file.relative_to(ROOT)
        hidden = any(part.startswith(".") for part in name.parts)
        if not hidden and not name.as_posix().startswith(NOT_OURS):
            yield file


def members(body: list[ast.stmt]) -> Iterator[Public]:
    """The public functions and classes of a module or class, those under `if` and `try` too."""
    for node in body:
        if isinstance(node, Public) and not node.name.startswith("_"):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            yield from members(node.body)


@cache
def described() -> dict[str, set[str]]:
    """By each class's name: its methods with a docstring, those of its bases too."""
    found: dict[str, set[str]] = {}
    above: dict[str, set[str]] = {}
    for folder in WITHOUT:
        for file in files(folder):
            for node in statements(outline(file)):
                if isinstance(node, ast.ClassDef):
                    known = found.setdefault(node.name, set())
                    known |= {m.name for m in members(node.body) if ast.get_docstring(m)}
                    above.setdefault(node.name, set()).update(bases(node))
    changed = True
    while changed:
        changed = False
        for name, over in above.items():
            more = set().union(*(found.get(base, set()) for base in over)) - found[name]
            found[name] |= more
            changed |= bool(more)
    return found


def bases(node: ast.ClassDef) -> set[str]:
    """The names of a class's bases, without their modules and parameters."""
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def is_overload(node: Public) -> bool:
    """Whether this is one signature of a function that follows."""
    return any(ast.unparse(d).endswith("overload") for d in node.decorator_list)


@cache
def without(folder: str) -> list[str]:
    """What has none: `file:line: name`. A method that a base class describes needs no other."""
    missing: list[str] = []

    def visit(file: Path, body: list[ast.stmt], inherited: set[str]) -> None:
        for node in members(body):
            if is_overload(node):
                continue
            if not ast.get_docstring(node) and node.name not in inherited:
                missing.append(f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}")
            if isinstance(node, ast.ClassDef):
                known = (described().get(base, set()) for base in bases(node))
                visit(file, node.body, set().union(*known))

    for file in files(folder):
        tree = outline(file)
        if not ast.get_docstring(tree):
            missing.append(f"{file.relative_to(ROOT)}:1: the module")
        visit(file, tree.body, set())
    return missing


@pytest.mark.parametrize("folder", WITHOUT)
def test_what_is_public_says_what_it_is_for(folder: str) -> None:
    missing = without(folder)
    assert len(missing) <= WITHOUT[folder], "\n".join(missing)


def test_the_numbers_are_no_larger_than_they_must_be() -> None:
    assert {folder: len(without(folder)) for folder in WITHOUT} == WITHOUT


def test_an_outline_has_what_is_defined_and_its_docstrings(tmp_path: Path) -> None:
    file = tmp_path / "some.py"
    file.write_text(
        '"""A."""\nx = 1\nclass B:\n    y = 2\n    def c(self):\n        "C."\n        z = 3\n'
        "if x:\n    def d():\n        while x:\n            def e(): pass\n"
        "match x:\n    case 1:\n        try:\n            pass\n        except E:\n"
        "            class F: ...\n"
    )
    tree = outline(file)
    named = [(n.name, ast.get_docstring(n)) for n in statements(tree) if isinstance(n, Public)]
    assert named == [("B", None), ("c", "C."), ("d", None), ("e", None), ("F", None)]
    assert ast.get_docstring(tree) == "A." and [m.name for m in members(tree.body)] == ["B", "d"]
    assert not any(isinstance(n, ast.Assign | ast.Pass) for n in statements(tree))
