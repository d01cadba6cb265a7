"""Reads the section `place`: its patterns must name nodes of the graph."""

from __future__ import annotations

from xlac.ir.graph import Graph
from xlac.model import SaidPlace
from xlac.placement.devices import assigned
from xlac.spec.report import Report
from xlac.spec.schema.document import Merged


def read_placement(merged: Merged, graph: Graph, report: Report) -> tuple[SaidPlace, ...]:
    """What the spec says of the targets of its nodes, in order. Mistakes go to the report. Whether
    a target is installed shows where the model is compiled.
    """
    places = tuple(
        SaidPlace(pattern, entry.spec, entry.place.key) for pattern, entry in merged.place.items()
    )
    if places and merged.train is not None:
        hint = "name targets in a spec that includes this model, and trains nothing"
        problem = "a spec that trains is on one target, --target"
        report.add("XL7834", problem, merged.train.place.key, hint)
    elif places and not report.broken:
        report.extend(assigned(graph, places).problems)
    return places
