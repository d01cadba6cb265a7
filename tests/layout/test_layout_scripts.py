"""Benchmarks and examples import what exists: nothing runs them in a usual test run, so a module
that moves would leave them behind.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "xlac": "toolchain",
    "xlac_sdk": "backend_sdk",
    "xlac_runtime": "runtime",
    **{f"xlac_{one}": f"backends/{one}" for one in ("cpu", "c", "cuda", "opencl", "reference")},
}
SCRIPTS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("bench", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of ours; None where there is none."""
    package, *parts = module.split(".")
    place = ROOT / PACKAGES[package] / package / Path(*parts)
    return next((p for p in (place / "__init__.py", place.with_suffix(".py")) if p.is_file()), None)


@cache
def names(path: Path) -> frozenset[str]:
    """The names that a module binds, `__getattr__` where it gives others when asked."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
    return frozenset(found)


def gives(path: Path, name: str) -> bool:
    """Whether a module has a name, or may have it when asked."""
    return bool(names(path) & {name, "__getattr__"})


def missing(text: str) -> Iterator[str]:
    """What a text imports of our packages that does not exist."""
    for node in ast.walk(ast.parse(text)):
        wanted = [(one.name, "") for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            wanted = [(node.module, one.name) for one in node.names]
        for module, name in wanted:
            if module.partition(".")[0] not in PACKAGES:
                continue
            path = file_of(module)
            if path is None:
                yield module
            elif name and file_of(f"{module}.{name}") is None and not gives(path, name):
                yield f"{module}.{name}"


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_imports_exists(script: str) -> None:
    assert list(missing((ROOT / script).read_text("utf-8"))) == []


def test_what_does_not_exist_is_found() -> None:
    text = "import xlac.gone\nfrom xlac.driver import lower, gone\nfrom xlac.ir import graph\n"
    assert list(missing(text)) == ["xlac.gone", "xlac.driver.gone"]
