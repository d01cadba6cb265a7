"""Exports a whole module: one public function, with inputs and results in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xlac.exporters.stablehlo import control, index, order, reductions, scalars, sums, views
from xlac.exporters.stablehlo.literals import type_text
from xlac.exporters.stablehlo.writer import StableHloWriter
from xlac.exporters.unsaid import refuse
from xlac.ir.graph import Node
from xlac.model import Model
from xlac.passes.specialize import substituted
from xlac.spec.text.write import quoted
from xlac.support.whole_files import replacing

# importing them registers the rules
FAMILIES = (control, index, order, reductions, scalars, sums, views)


def text(model: Model) -> str:
    """The module. Raises UnsupportedError naming every node that StableHLO cannot express."""
    return "".join(lines(model))


def write(
    model: Model, file: Path, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Writes the module, with one constant in memory at a time. `progress` gets the lines written
    and the total.
    """
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
    """The lines of the module, each as text or as a function that makes it. Open sizes are fixed at
    their `opt`.
    """
    if model.dims:
        sizes = {name: symbol.opt for name, symbol in model.dims.items()}
        model = replace(model, graph=substituted(model.graph, sizes), dims={})
    writer = StableHloWriter(lambda name: np.asarray(model.weights[name]))
    inputs = model.graph.inputs
    values: dict[Node, Any] = {}
    for node in inputs:
        values[node] = writer.argument(node)
    for node in model.graph.nodes():
        if node not in values:
            values[node] = writer.node(node, values)
    refuse(writer.problems, "XL7402", "StableHLO")
    given = ", ".join(f"{values[n].name}: {type_text(n.type)}" for n in inputs)
    results = [values[n] for n in model.graph.outputs.values()]
    result_types = ", ".join(
        f"{type_text(v.type)} {{jax.result_info = {quoted(name)}}}"
        for name, v in zip(model.graph.outputs, results, strict=True)
    )
    names, ends = ", ".join(v.name for v in results), ", ".join(type_text(v.type) for v in results)
    return [
        f"module @{quoted(model.name)} {{",
        f"  func.func public @main({given}) -> ({result_types}) {{",
        *writer.lines,
        f"    return {names} : {ends}" if results else "    return",
        "  }",
        "}",
    ]
