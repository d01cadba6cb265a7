"""No circle of imports, those that are made when a function runs included; and inside a room
imports stand at the top of a file, so that a reader and the import contracts see them.

A room is a top-level folder or module of a package: `xlac.codegen`, `xlac_sdk.host`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "xlac": "toolchain/xlac",
    "xlac_sdk": "backend_sdk/xlac_sdk",
    "xlac_cpu": "backends/cpu/xlac_cpu",
    "xlac_c": "backends/c/xlac_c",
    "xlac_cuda": "backends/cuda/xlac_cuda",
    "xlac_reference": "backends/reference/xlac_reference",
}

DOORS = {
    "xlac.cli": "a command imports what it needs when it runs: `xlac --help` is quick",
    "xlac.frontends.onnx": "loader.py asks whose file it is without the importer",
    "xlac.frontends.stablehlo": "likewise",
    "xlac.frontends.tflite": "likewise",
    "xlac.frontends.keras": "likewise",
    "xlac.frontends.torch": "likewise",
    "xlac.integrations.registered.operation": "PyTorch and JAX are optional",
    "xlac_sdk.programs.program": "a program that is only called loads neither kernels nor steps",
    "xlac_cuda.libraries.claims": "NVIDIA's libraries are optional",
    "xlac_cuda.libraries.calls": "likewise",
    "xlac_cuda.device.open": "PyCUDA is optional",
}
"""Packages and modules that import parts of their own room when they are asked for them, and
why.
"""


@cache
def modules() -> Mapping[str, Path]:
    """Every module by its name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *(p for p in parts if p != "__init__")])] = path
    return found


def imports(text: str, known: Mapping[str, object]) -> Iterator[tuple[str, bool, int]]:
    """The known modules that a text imports: each with whether a function does, and the line.

    What only type checkers import is none.
    """

    def of(block: ast.AST, late: bool) -> Iterator[tuple[str, bool, int]]:
        for node in ast.iter_child_nodes(block):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                yield from of(ast.Module(node.orelse, []), late)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for name in node.names:
                    full = f"{node.module}.{name.name}"
                    module = full if full in known else node.module
                    if module in known:
                        yield module, late, node.lineno
            elif isinstance(node, ast.Import):
                for name in node.names:
                    if name.name in known:
                        yield name.name, late, node.lineno
            elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
                function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                yield from of(node, late or function)

    yield from of(ast.parse(text), False)


INDENTED = re.compile(r"^[ \t]+(from|import) ", re.MULTILINE)
# a line of a docstring may begin with the same words
STATEMENT = re.compile(
    r"^(?:from [\w.]+ import (?:\([^)]*\)|[\w, ]+)|import [\w.]+(?:, [\w.]+| as \w+)*)(?: *#.*)?$",
    re.MULTILINE,
)


@cache
def edges() -> Mapping[str, list[tuple[str, bool, int]]]:
    """What every module imports. Of most files only the statements at the margin are parsed: all of
    them would take seconds.
    """
    found = {}
    for module, path in modules().items():
        text = path.read_text()
        if not INDENTED.search(text):
            text = "\n".join(statement[0] for statement in STATEMENT.finditer(text))
        found[module] = list(imports(text, modules()))
    return found


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of modules each of which leads to all others of its set (Tarjan)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        path.append(module)
        for other in graph.get(module, ()):
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in path:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            at = path.index(module)
            ring = set(path[at:])
            del path[at:]
            if len(ring) > 1 or module in graph.get(module, ()):
                found.append(ring)

    for module in graph:
        if module not in number:
            visit(module)
    return found


def room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_no_circle_of_imports() -> None:
    graph = {m: {other for other, _, _ in found} - {m} for m, found in edges().items()}
    assert circles(graph) == []


def test_inside_a_room_imports_stand_at_the_top() -> None:
    late: dict[str, set[str]] = {}
    for module, found in edges().items():
        for other, deferred, _ in found:
            if deferred and room(module) == room(other) and not _is_door(module):
                late.setdefault(module, set()).add(other)
    assert not late


def _is_door(module: str) -> bool:
    return module in DOORS or room(module) in DOORS


def test_every_door_is_there() -> None:
    assert set(DOORS) <= set(modules())


def test_hints_that_name_the_nearest_word_are_made_in_one_place() -> None:
    """`choices`: their wording is one. `fmt` shows the difference of two texts."""
    users = {module for module, path in modules().items() if "difflib" in path.read_text()}
    assert users == {"xlac_sdk.support.choices", "xlac.cli.commands.formats.fmt"}


KNOWN = {"p.a": 0, "p.b": 0, "p.c": 0}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("from p import a\nimport p.b", [("p.a", False, 1), ("p.b", False, 2)]),
        ("def f():\n    if 1:\n        from p.a import x", [("p.a", True, 3)]),
        ("class C:\n    def f(self):\n        with x:\n            import p.c", [("p.c", True, 4)]),
        ("try:\n    import p.a\nexcept E:\n    import p.b", [("p.a", False, 2), ("p.b", False, 4)]),
        ("match x:\n    case 1:\n        import p.a", [("p.a", False, 3)]),
        ("if TYPE_CHECKING:\n    import p.a\nelse:\n    import p.b", [("p.b", False, 4)]),
    ],
)
def test_imports_are_found(text: str, expected: list[tuple[str, bool, int]]) -> None:
    assert list(imports(text, KNOWN)) == expected


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert sorted(map(sorted, circles(graph))) == [["a", "b", "c"], ["d", "e"]]
