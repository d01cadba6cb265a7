"""Reads the sections `mesh`, `shard` and `pipeline`, and checks `shard` nodes against the mesh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from xlac.ir.graph import Graph, Node
from xlac.ir.paths import fits
from xlac.model import MeshSection, SaidPipeline, SaidSharding
from xlac.ops.collective.shard import Shard, named
from xlac.spec.report import Place, Report, nearest
from xlac.spec.schema.document import Merged
from xlac_sdk.source import Span


def read_sharding(
    merged: Merged,
    model: Graph,
    asked: Mapping[str, Node],
    weights: Mapping[str, Node],
    report: Report,
) -> MeshSection | None:
    """What the spec says of ranks; None where it says nothing. Mistakes go to the report. `asked`
    are nodes of losses and metrics, which may read others than the model's outputs do.
    """
    graph = Graph(model.name, model.inputs, {**model.outputs, **asked})
    mesh = {name: entry.spec for name, entry in merged.mesh.items()}
    params = {n.name: n for n in graph.inputs} | dict(weights)
    said: dict[str, SaidSharding] = {}
    for pattern, entry in merged.shard.items():
        axes = tuple(map(named, entry.spec))
        _check_axes(axes, mesh, entry.place, report)
        matching = [name for name in params if fnmatchcase(name, pattern)]
        if not matching and not report.broken:
            problem = f"no weight, input or state is called {pattern!r}"
            report.add("XL7803", problem, entry.place.key, nearest(pattern, params))
        for name in matching:
            known = params[name].type
            if known.rank != len(axes):
                problem = f"{name!r} is {known}, and mesh axes are told for {len(axes)} axes"
                report.add("XL7804", problem, entry.place.span)
            elif name in said:
                problem = f"{name!r} fits two patterns"
                report.add("XL7803", problem, entry.place.key, "let one of them fit it alone")
            else:
                said[name] = SaidSharding(axes, entry.place.span)
    for node in _shards(graph):
        assert isinstance(node.op, Shard)
        span = node.origin.span if node.origin else None
        for name in _unknown(map(named, node.op.axes), mesh):
            _report_unknown(name, mesh, span, report)
    pipeline = _pipeline(merged, graph, mesh, report)
    return MeshSection(mesh, said, pipeline=pipeline) if mesh else None


def _pipeline(
    merged: Merged, graph: Graph, mesh: Mapping[str, Any], report: Report
) -> SaidPipeline | None:
    """The stages of the model; patterns must name nodes."""
    if merged.pipeline is None:
        return None
    spec, place = merged.pipeline.spec, merged.pipeline.place
    if spec.axis not in mesh:
        _report_unknown(spec.axis, mesh, place.at("axis").span, report)
    if spec.stages is not None and spec.chunks > 1:
        problem = "chunks are for stages that are found; these are given"
        report.add("XL7840", problem, place.at("chunks").key, "leave chunks out")
    paths = list(dict.fromkeys(n.name for n in graph.nodes() if n.name))
    for number, patterns in enumerate(spec.stages or ()):
        for pattern in patterns:
            if not report.broken and not any(fits(path, pattern) for path in paths):
                problem = f"no node is called {pattern!r}"
                at = place.at("stages", number).span
                report.add("XL7840", problem, at, nearest(pattern, paths))
    stages = None if spec.stages is None else tuple(map(tuple, spec.stages))
    return SaidPipeline(spec.axis, stages, spec.chunks, spec.schedule, place.key)


def _shards(graph: Graph) -> Iterator[Node]:
    """The `shard` nodes of a graph and its bodies."""
    for node in graph.nodes():
        if isinstance(node.op, Shard):
            yield node
        for body in node.op.bodies():
            yield from _shards(body)


def _unknown(axes: Any, mesh: Mapping[str, Any]) -> Iterator[str]:
    return (name for names in axes for name in names if name not in mesh)


def _check_axes(
    axes: tuple[tuple[str, ...], ...], mesh: Mapping[str, Any], place: Place, report: Report
) -> None:
    """Reports axes that the mesh lacks, and those that divide two axes of one value."""
    used: set[str] = set()
    for number, names in enumerate(axes):
        for name in names:
            at = place.at(number).span
            if name not in mesh:
                _report_unknown(name, mesh, at, report)
            elif name in used:
                report.add("XL7802", f"mesh axis {name!r} divides two axes of one value", at)
            used.add(name)


def _report_unknown(name: str, mesh: Mapping[str, Any], span: Span | None, report: Report) -> None:
    if mesh:
        report.add("XL7802", f"the mesh has no axis {name!r}", span, nearest(name, mesh))
    else:
        problem = f"there is no section mesh, which names axes such as {name!r}"
        report.add("XL7802", problem, span, f"mesh: {{{name}: null}}")
