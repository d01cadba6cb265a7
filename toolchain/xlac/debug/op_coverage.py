"""Which ways in and out each operation has: specs, traced Python, the importers and the exporters.

What a way has is read from its own tables. An exporter has a rule for an operation, or writes it by
its expansion, or refuses it with a reason. An importer makes the operations that its builders name:
their source is read, since a builder may make any graph; composites of such operations count as
parts.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from xlac.ir.composite import Composite
from xlac.ir.graph import walk
from xlac.ir.op import Op
from xlac.ops import OPS, build
from xlac.spec.elaborate.operations import STRUCTURAL, known_names

Coverage = dict[str, dict[str, str]]
"""Of an operation and a way: how it has the operation, or nothing where it lacks it."""

WRITERS = frozenset({"param", "const", "pick"})  # every graph's: writers say these themselves


def coverage() -> Coverage:
    """Every operation with every way."""
    columns = {way: column() for way, column in WAYS.items()}
    return {name: {way: found.get(name, "") for way, found in columns.items()} for name in OPS}


def lacking(found: Coverage) -> dict[str, list[str]]:
    """The operations that each way lacks."""
    return {way: [name for name, has in found.items() if not has[way]] for way in WAYS}


# ---- specs and Python --------------------------------------------------------------------------


def by_spec() -> dict[str, str]:
    """Operations that a spec names, and those for which it has syntax of its own."""
    return dict.fromkeys(known_names(), "named") | dict.fromkeys(STRUCTURAL, "syntax")


def by_tracing() -> dict[str, str]:
    """Operations that are functions of `xlac`."""
    from xlac.frontends.tracing import function

    return {name: "function" for name in OPS if function(name) is not None}


# ---- importers ---------------------------------------------------------------------------------


def imported(package: str) -> Callable[[], dict[str, str]]:
    """The operations that the builders of a package name, and composites of such operations."""

    def column() -> dict[str, str]:
        made = named(folder(package))
        return with_composites(dict.fromkeys(sorted(made), "built"), "parts")

    return column


def folder(package: str) -> Path:
    """Where a package lies; it is not imported, so that what it needs need not be there."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


@cache
def named(place: Path) -> set[str]:
    """The operations that the files of a folder name: as classes, by functions of `ops.build` that
    make them, and by mnemonics in calls of `apply` and in tables.
    """
    found: set[str] = set()
    for file in sorted(place.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for name in references(tree, imported_ops(tree)):
            found |= made_by().get(name, frozenset())
        found |= set(mnemonics(tree)) & OPS.keys()
    return found


def references(tree: ast.AST, imports: set[str]) -> Iterator[str]:
    """What is read of modules of `xlac.ops`, and of their names, where these are imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in imports:
                yield node.attr
        elif isinstance(node, ast.Name) and node.id in imports:
            yield node.id


def imported_ops(module: ast.Module) -> set[str]:
    """The names that a module has from `xlac.ops`."""
    return {
        name.asname or name.name
        for node in ast.walk(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("xlac.ops")
        for name in node.names
    }


def mnemonics(tree: ast.Module) -> Iterator[str]:
    """Texts that can only be mnemonics: the first operand of `apply`, and what tables of the module
    have.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func
            called = called.id if isinstance(called, ast.Name) else called
            if called in ("apply", "apply1"):
                yield from texts(node.args[0])
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Dict):
                    yield from (text for value in node.values for text in texts(value))


def texts(tree: ast.AST) -> Iterator[str]:
    """The constants of a tree that are text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def made_by() -> Mapping[str, frozenset[str]]:
    """Which operations a name makes: a class of them, or a function of `ops.build`, by what it
    names in turn.
    """
    classes = {cls.__name__: name for name, cls in OPS.items()}
    reads: dict[str, set[str]] = {}
    for part in ("values", "nodes", "forms", "indexing", "build"):
        file = folder("xlac.ops") / f"{part}.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        functions = [f for f in tree.body if isinstance(f, ast.FunctionDef)]
        seen = imported_ops(tree) | {f.name for f in functions}
        reads |= {f.name: set(references(f, seen)) for f in functions}

    def makes(name: str) -> frozenset[str]:
        reached, left = {name}, [name]
        while left:
            more = reads.get(left.pop(), set()) - reached
            reached |= more
            left += more
        return frozenset(classes[one] for one in reached if one in classes)

    return {name: makes(name) for name in (*classes, *reads)}


# ---- exporters ---------------------------------------------------------------------------------


def exported(module: str, needs: str = "") -> Callable[[], dict[str, str]]:
    """The operations that an exporter has rules for, and composites that it writes by expansion.

    Without the package that it needs nothing is known of it.
    """

    def column() -> dict[str, str]:
        if needs and find_spec(needs) is None:
            return dict.fromkeys(OPS, "?")
        import_module(f"{module}.{'model' if needs else 'module'}")  # its families fill the table
        writer: Any = import_module(f"{module}.writer")
        rules = writer.RULES.keys() - writer.REFUSED.keys() | WRITERS
        found = with_composites({name: "rule" for name in OPS if name in rules}, "expansion")
        return {name: has for name, has in found.items() if name not in writer.REFUSED}

    return column


def with_composites(found: dict[str, str], how: str) -> dict[str, str]:
    """The operations found, and the composites whose expansions are made of them."""

    def has(name: str) -> bool:
        return name in found or (name in composites and all(map(has, parts(name))))

    composites = [name for name, cls in OPS.items() if issubclass(cls, Composite)]
    return found | {name: how for name in composites if name not in found and has(name)}


@cache
def parts(name: str) -> frozenset[str]:
    """The operations that the expansions of an operation's samples are made of."""
    found: set[str] = set()
    cls = OPS[name]
    assert issubclass(cls, Composite)
    for sample in cls.samples():
        inputs = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs)]
        roots = cls(**sample.attributes).expanded(*inputs)
        found |= {node.op.mnemonic for node in walk(roots)}
    return frozenset(found - WRITERS)


def by_spec_export() -> dict[str, str]:
    """Operations that a spec can be written with: all but those that hold a graph which no syntax
    has.
    """
    return {name: "named" for name, cls in OPS.items() if name in STRUCTURAL or sayable(cls)}


def sayable(cls: type[Op]) -> bool:
    """Whether a spec has the graphs that an operation holds: one called `body`, or none."""
    graphs = [f.name for f in fields(cls) if "Graph" in str(f.type)]
    return graphs in ([], ["body"])


WAYS: dict[str, Callable[[], Mapping[str, str]]] = {
    "spec": by_spec,
    "python": by_tracing,
    "onnx in": imported("xlac.frontends.onnx"),
    "stablehlo in": imported("xlac.frontends.stablehlo"),
    "torch in": imported("xlac.frontends.torch"),
    "onnx out": exported("xlac.exporters.onnx", needs="onnx"),
    "stablehlo out": exported("xlac.exporters.stablehlo"),
    "spec out": by_spec_export,
}
"""The ways in and out, and which operations each has."""


def table(found: Coverage, names: list[str]) -> str:
    """Rows of operations, columns of ways; below, what each way lacks."""
    width = max(map(len, names))
    head = f"{'':<{width}}  " + "  ".join(WAYS)
    rows = [
        f"{name:<{width}}  "
        + "  ".join(f"{found[name][way] or '-':<{len(way)}}" for way in WAYS).rstrip()
        for name in names
    ]
    totals = [
        f"{way} lacks {len(names)} of {len(found)}: {', '.join(names)}"
        for way, names in lacking(found).items()
        if names
    ]
    return "\n".join([head, *rows, "", *totals])
