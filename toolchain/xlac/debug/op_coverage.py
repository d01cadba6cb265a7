"""Which importers, exporters and languages support each operation: specs, traced Python, the
importers and the exporters.

Each is read from its own tables. An exporter has a rule for an operation, writes its expansion, or
refuses it with a reason. An importer declares the operations that it makes
(`frontends/produced.py`), and the exporter to ONNX those it writes (`exporters/onnx/written.py`);
composites of them count as parts.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
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
"""Operation -> how it is supported by one of them; operations that are not supported are absent."""

# part of every graph, written by exporters themselves
WRITERS = frozenset({"param", "const", "pick"})


def coverage() -> Coverage:
    """The coverage of all of them, by name."""
    columns = {way: column() for way, column in WAYS.items()}
    return {name: {way: ways.get(name, "") for way, ways in columns.items()} for name in OPS}


def lacking(ways_by_op: Coverage) -> dict[str, list[str]]:
    """The operations that each of them lacks."""
    return {way: [name for name, has in ways_by_op.items() if not has[way]] for way in WAYS}


# ---- specs and Python --------------------------------------------------------------------------


def by_spec() -> dict[str, str]:
    """Operations that specs name, and those with a syntax of their own."""
    return dict.fromkeys(known_names(), "named") | dict.fromkeys(STRUCTURAL, "syntax")


def by_tracing() -> dict[str, str]:
    """Operations that are functions of `xlac`."""
    from xlac.frontends.tracing import function

    return {name: "function" for name in OPS if function(name) is not None}


# ---- importers ---------------------------------------------------------------------------------


def imported(package: str) -> Callable[[], dict[str, str]]:
    """Operations that an importer declares in its `produced.py`, and composites of them."""

    def column() -> dict[str, str]:
        return with_composites(dict.fromkeys(sorted(declared(package)), "built"), "parts")

    return column


def declared(package: str) -> frozenset[str]:
    """What an importer's package declares."""
    return frozenset(declarations(package, "produced.py")["PRODUCED"])


def declarations(package: str, file: str) -> dict[str, Any]:
    """The constants defined in a module of a package, parsed rather than imported, so that its
    dependencies need not be installed.
    """
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return runpy.run_path(str(Path(spec.submodule_search_locations[0]) / file))


# ---- exporters ---------------------------------------------------------------------------------


def written_onnx() -> dict[str, str]:
    """The operations that the exporter to ONNX declares in its `written.py`."""
    said = declarations("xlac.exporters.onnx", "written.py")
    return written(said["WRITTEN"], said["REFUSED"])


def written_stablehlo() -> dict[str, str]:
    """The operations that the exporter to StableHLO has rules for."""
    import_module("xlac.exporters.stablehlo.module")  # registers the rules
    writer: Any = import_module("xlac.exporters.stablehlo.writer")
    return written(writer.RULES.keys(), writer.REFUSED)


def written(rules: AbstractSet[str], refused: Mapping[str, str]) -> dict[str, str]:
    """Operations with rules, and composites that are written by their expansion."""
    ruled = rules - refused.keys() | WRITERS
    ways = with_composites({name: "rule" for name in OPS if name in ruled}, "expansion")
    return {name: has for name, has in ways.items() if name not in refused}


def with_composites(ways: dict[str, str], how: str) -> dict[str, str]:
    """`ways`, with the composites whose expansions consist of operations in it."""

    def has(name: str) -> bool:
        return name in ways or (name in composites and all(map(has, parts(name))))

    composites = [name for name, cls in OPS.items() if issubclass(cls, Composite)]
    return ways | {name: how for name in composites if name not in ways and has(name)}


@cache
def parts(name: str) -> frozenset[str]:
    """The operations in the expansions of an operation's samples; without itself, on smaller
    operands.
    """
    mnemonics: set[str] = set()
    cls = OPS[name]
    assert issubclass(cls, Composite)
    for sample in cls.samples():
        inputs = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs)]
        roots = cls(**sample.attributes).expanded(*inputs)
        mnemonics |= {node.op.mnemonic for node in walk(roots)}
    return frozenset(mnemonics - WRITERS - {name})


def by_spec_export() -> dict[str, str]:
    """Operations that can be written in a spec: all but those with bodies for which there is no
    syntax.
    """
    return {name: "named" for name, cls in OPS.items() if name in STRUCTURAL or sayable(cls)}


def sayable(cls: type[Op]) -> bool:
    """Whether a spec can express the bodies of an operation: one called `body`, or none."""
    graphs = [f.name for f in fields(cls) if "Graph" in str(f.type)]
    return graphs in ([], ["body"])


WAYS: dict[str, Callable[[], Mapping[str, str]]] = {
    "spec": by_spec,
    "python": by_tracing,
    "onnx in": imported("xlac.frontends.onnx"),
    "stablehlo in": imported("xlac.frontends.stablehlo"),
    "torch in": imported("xlac.frontends.torch"),
    "tflite in": imported("xlac.frontends.tflite"),
    "keras in": imported("xlac.frontends.keras"),
    "onnx out": written_onnx,
    "stablehlo out": written_stablehlo,
    "spec out": by_spec_export,
}
"""The coverage of each importer, exporter and language, by name."""


def table(ways_by_op: Coverage, names: list[str]) -> str:
    """A table with a row for each operation and a column for each of them; below it, the operations
    that each lacks.
    """
    width = max(map(len, names))
    head = f"{'':<{width}}  " + "  ".join(WAYS)
    rows = [
        f"{name:<{width}}  "
        + "  ".join(f"{ways_by_op[name][way] or '-':<{len(way)}}" for way in WAYS).rstrip()
        for name in names
    ]
    totals = [
        f"{way} lacks {len(names)} of {len(ways_by_op)}: {', '.join(names)}"
        for way, names in lacking(ways_by_op).items()
        if names
    ]
    return "\n".join([head, *rows, "", *totals])
