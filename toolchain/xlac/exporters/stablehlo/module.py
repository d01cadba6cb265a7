"""Exports a whole module: one public function, with inputs and results in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xlac.exporters.left_out import warn_left_out
from xlac.exporters.stablehlo import control, index, order, reductions, scalars, shards, sums, views
from xlac.exporters.stablehlo.literals import type_text
from xlac.exporters.stablehlo.shardy import WrittenMesh, mesh_of
from xlac.exporters.stablehlo.writer import StableHloWriter
from xlac.exporters.unsaid import refuse
from xlac.ir.dims import symbols
from xlac.ir.graph import Node
from xlac.ir.ranges import usual_opt
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.spec.text.write import quoted
from xlac.support.whole_files import replacing

WORD = re.compile("[A-Za-z_][A-Za-z0-9_]*")
LONGEST = 200  # characters of a size that the importer reads
# importing them registers the rules
FAMILIES = (control, index, order, reductions, scalars, shards, sums, views)


def text(model: Model) -> str:
    """The module. Raises UnsupportedError naming every node that StableHLO cannot express."""
    return "".join(lines(model))


def write(
    model: Model, file: Path, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Writes the module, with one constant in memory at a time. `progress` gets the lines written
    and the total. Warns of what is left out, which is `place`, and what a mesh divides that has a
    size left open: LeftOutWarning.
    """
    warn_left_out(model, "StableHLO", divisions=mesh_of(model) is None)
    parts = list(_parts(model))
    with replacing(file) as path, path.open("w", encoding="utf-8") as out:
        for number, line in enumerate(parts, 1):
            out.write((line if isinstance(line, str) else line()) + "\n")
            if progress is not None:
                progress(number, len(parts))
    return [file]


def lines(model: Model) -> Iterator[str]:
    """The text of a module, line by line; constants are formatted when their line is consumed."""
    for line in _parts(model):
        yield (line if isinstance(line, str) else line()) + "\n"


def _parts(model: Model) -> list[Any]:
    """The lines of the module, each as text or as a function that makes it."""
    mesh = mesh_of(model)
    writer = StableHloWriter(lambda name: np.asarray(model.weights[name]), mesh)
    inputs = model.graph.inputs
    values: dict[Node, Any] = {}
    for node in inputs:
        values[node] = writer.argument(node)
    writer.sizes.declare(model.dims, {node: values[node] for node in inputs})
    for node in model.graph.nodes():
        if node not in values:
            values[node] = writer.node(node, values)
    refuse(writer.problems, "XL7402", "StableHLO")
    given = ", ".join(
        f"{values[n].name}: {type_text(n.type)} {{{_interface(n, mesh)}}}" for n in inputs
    )
    results = [values[n] for n in model.graph.outputs.values()]
    result_types = ", ".join(
        f"{type_text(v.type)} {{jax.result_info = {quoted(name)}, xlac.name = {quoted(name)}}}"
        for name, v in zip(model.graph.outputs, results, strict=True)
    )
    names, ends = ", ".join(v.name for v in results), ", ".join(type_text(v.type) for v in results)
    return [
        f"module @{quoted(model.name)} {f'attributes {{{mesh.attribute}}} ' if mesh else ''}{{",
        f"  func.func public @main({given}) -> ({result_types}) {{",
        *writer.lines,
        f"    return {names} : {ends}" if results else "    return",
        "  }",
        "}",
    ]


def _interface(node: Node, mesh: WrittenMesh | None) -> str:
    """The attributes of an argument: its name, which tools of MLIR replace in the text, how ranks
    divide it, and its sizes where some are open, with those to optimise for where a reader would
    choose others.
    """
    name, sizes = f"xlac.name = {quoted(param(node).name)}", [*map(str, node.shape)]
    said = mesh.of_parameter(node) if mesh else ""
    name = f"{name}, {said}" if said else name
    names = [s.name for size in node.shape for s in symbols(size)]
    if not names or not all(map(WORD.fullmatch, names)) or max(map(len, sizes)) > LONGEST:
        return name
    said = f"{name}, xlac.sizes = [{', '.join(map(quoted, sizes))}]"
    found = dict.fromkeys(s for size in node.shape for s in symbols(size))
    opts = [
        quoted(f"{s.name}={s.opt}")
        for s in found
        if s.opt != usual_opt(s.min, s.max, s.multiple_of)
    ]
    return f"{said}, xlac.opt = [{', '.join(opts)}]" if opts else said
