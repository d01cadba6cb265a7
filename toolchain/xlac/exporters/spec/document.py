"""Writes a whole spec, with sections in their canonical order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from xlac.exporters.spec.learned import Learned, is_weight
from xlac.exporters.spec.names import Names, clean, public
from xlac.exporters.spec.places import places
from xlac.exporters.spec.section import Book, Keep, Section
from xlac.ir.dims import UNBOUNDED, Sym, Symbol, symbols
from xlac.ir.graph import Node
from xlac.model import Model, SaidPipeline
from xlac.ops.tensor.leaf import Param, param
from xlac.passes.specialize import substituted
from xlac.spec.text.write import flow, scalar, type_text


def text(
    model: Model,
    head: Mapping[str, Any] | None = None,
    keep: Keep = lambda name, value: False,
    weights: Callable[[], str] = lambda: "",
) -> str:
    """The text of a spec that loads to the model's graph.

    `head` has sections that are written verbatim (weights, ops). `keep` decides for every constant
    whether it is stored in a weights file, and under which name; `weights` then names that file, if
    there is one. Raises UnsupportedError for what a spec cannot express.
    """
    model = sized(model)
    lines = ["xlac: 1", f"model: {scalar(public(model.name))}"]
    if model.doc:
        lines.append(f"doc: {scalar(model.doc)}")
    if model.precision != "default":
        lines.append(f"precision: {model.precision}")
    if model.dims:
        lines += [
            "dims:",
            *(f"  {scalar(name)}: {_bounds(symbol)}" for name, symbol in model.dims.items()),
        ]
    book = Book(Learned(model.graph), keep, frozenset((head or {}).get("ops", ())))
    section = Section(book, model.graph, "", {}, Names(node.name for node in book.learned.weights))
    _name_leaves(section, model)
    body = section.lines("  ")
    sections = dict(head or {}) | ({"weights": file} if (file := weights()) else {})
    lines += [f"{section}: {flow(value)}" for section, value in sections.items()]
    return "\n".join([*lines, *_interface(model, section, body)]) + "\n"


def _name_leaves(section: Section, model: Model) -> None:
    """Names inputs and weights first; names of nodes must differ from these."""
    for node in model.graph.inputs:
        section.names[node] = section.taken.plain(public(param(node).name))
    for node in section.order:
        if is_weight(node):
            section.names[node] = section.taken.plain(clean(param(node).name))
    inputs = {*model.graph.inputs}
    section.order = [n for n in section.order if n not in inputs]


def _interface(model: Model, section: Section, body: list[str]) -> list[str]:
    """Inputs, state, the graph's entries and the outputs."""
    names, outputs = section.names, model.graph.outputs
    inputs = [n for n in model.graph.inputs if param(n).kind == "input"]
    lines = (
        ["inputs:", *(f"  {scalar(names[n])}: {scalar(type_text(n.type))}" for n in inputs)]
        if inputs
        else []
    )
    states = [n for n in model.graph.inputs if param(n).kind == "state"]
    if states:
        lines.append("state:")
    for node in states:
        after = names[outputs[model.state[param(node).name]]]
        lines.append(
            f"  {scalar(names[node])}: {{type: {scalar(type_text(node.type))}, next: "
            f"{scalar(after)}}}"
        )
    if body:
        lines += ["graph:", *body]
    hidden = {after for name, after in model.state.items() if after == f"{name}.next"}
    public_values = {
        public(name): names[node] for name, node in outputs.items() if name not in hidden
    }
    if all(name == value for name, value in public_values.items()):
        lines.append(f"outputs: {flow(list(public_values))}")
    else:
        lines += [
            "outputs:",
            *(f"  {scalar(name)}: {scalar(value)}" for name, value in public_values.items()),
        ]
    if model.extents:
        lines.append("extents:")
    for name, counts in model.extents.items():
        axes = [counts.get(axis) for axis in range(outputs[name].type.rank)]
        lines.append(
            f"  {scalar(public(name))}: "
            f"{flow([None if count is None else public(count) for count in axes])}"
        )
    return [*lines, *_ranks(model, names), *places(model, section.keys)]


def _ranks(model: Model, names: Mapping[Node, str]) -> list[str]:
    """The mesh, and how parameters are divided."""
    if model.ranks is None:
        return []
    lines = ["mesh:"]
    for axis, size in model.ranks.mesh.items():
        lines.append(f"  {scalar(axis)}: {'null' if size is None else size}")
    params = {
        param(n).name: n
        for n in (*model.graph.inputs, *model.graph.nodes())
        if isinstance(n.op, Param)
    }
    said = {names[params[n]]: s for n, s in model.ranks.params.items() if n in params}
    lines += ["shard:"] if said else []
    for name, sharding in said.items():
        axes = [None if not a else a[0] if len(a) == 1 else list(a) for a in sharding.axes]
        lines.append(f"  {scalar(name)}: {flow(axes)}")
    return [*lines, *_pipeline(model.ranks.pipeline)]


def _pipeline(said: SaidPipeline | None) -> list[str]:
    """The stages of the model."""
    if said is None:
        return []
    lines = ["pipeline:", f"  axis: {scalar(said.axis)}"]
    if said.stages is not None:
        lines += ["  stages:", *(f"    - {flow(list(patterns))}" for patterns in said.stages)]
    elif said.chunks > 1:
        lines.append(f"  chunks: {said.chunks}")
    return [*lines, f"  schedule: {scalar(said.schedule)}"]


def sized(model: Model) -> Model:
    """The model with every size declared under a name that is valid in arithmetic."""
    declared = dict(model.dims)
    for node in model.graph.nodes():
        for type in node.results:
            for size in type.shape:
                declared.update({s.name: s for s in symbols(size) if s.name not in declared})
    names = Names()
    renamed = {name: names.plain(clean(name).replace(".", "_")) for name in declared}
    dims = {renamed[name]: replace(symbol, name=renamed[name]) for name, symbol in declared.items()}
    if all(old == new for old, new in renamed.items()):
        return replace(model, dims=dims)
    values = {old: Sym((((dims[new],), 1),)) for old, new in renamed.items() if old != new}
    return replace(model, graph=substituted(model.graph, values), dims=dims)


def _bounds(symbol: Symbol) -> str:
    facts = {
        "min": symbol.min,
        "max": symbol.max,
        "opt": symbol.opt,
        "multiple_of": symbol.multiple_of,
    }
    if symbol.max >= UNBOUNDED:
        del facts["max"]
    if not symbol.min <= symbol.opt <= symbol.max or symbol.opt % symbol.multiple_of:
        del facts["opt"]
    if symbol.multiple_of == 1:
        del facts["multiple_of"]
    return flow(facts)
