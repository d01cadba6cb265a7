"""Substitutes values for symbolic sizes: in types, attributes and bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xlac.ir.dims import Dim, OpenSize, Sym, Symbol, substitute, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError, attributes
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.control.control import Pick
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError


def substituted(graph: Graph, values: Mapping[str, Dim]) -> Graph:
    """The graph with every symbol in `values` replaced; types are inferred again."""
    new: dict[Node, Node] = {}
    for node in (*graph.inputs, *graph.nodes()):
        if node not in new:
            new[node] = _node(node, new, values)
    outputs = {name: new[node] for name, node in graph.outputs.items()}
    return Graph(graph.name, tuple(new[i] for i in graph.inputs), outputs)


def partly_open(model: Model, sizes: Mapping[str, int | Symbol]) -> Model:
    """The model with its open sizes fixed, to the given values or else their `opt`; those given as
    symbols stay open, within the symbols' bounds.
    """
    values = {name: sizes.get(name, known.opt) for name, known in model.dims.items()}
    kept = {name: size for name, size in values.items() if isinstance(size, Symbol)}
    dims: dict[str, Dim] = {
        name: Sym((((size,), 1),)) if isinstance(size, Symbol) else size
        for name, size in values.items()
    }
    return replace(model, graph=substituted(model.graph, dims), dims=kept)


def _node(node: Node, new: Mapping[Node, Node], values: Mapping[str, Dim]) -> Node:
    changed = {
        name: held
        for name, value in attributes(node.op).items()
        if (held := _value(value, values)) is not value
    }
    op = replace(node.op, **changed) if changed else node.op
    inputs = tuple(new[i] for i in node.inputs)
    if not changed and inputs == node.inputs:
        return node
    if isinstance(op, Pick):
        return Node(op, inputs, inputs[0].results[op.index], node.origin)
    try:
        return Node.of(op, *inputs, origin=node.origin)
    except ShapeError as error:
        sizes = ", ".join(f"{name}={value}" for name, value in values.items())
        name = f"'{node.name}': " if node.name else ""
        raise SourceError(
            Diagnostic(
                "XL2009", f"with {sizes}, {name}{error}", node.origin.span if node.origin else None
            )
        ) from None


def _limits(size: Dim) -> set[tuple[str, int, int]]:
    """The size with its symbols' bounds removed, for comparison."""
    return {(s.name, s.min, s.max) for s in symbols(size)}


def _value(value: Any, values: Mapping[str, Dim]) -> Any:
    """An attribute with its sizes replaced; the same object when nothing in it changes."""
    match value:
        case Sym():
            size = substitute(value, values)
            return value if size == value and _limits(size) == _limits(value) else size
        case Type():
            shape = _value(value.shape, values)
            return value if shape is value.shape else value.with_shape(shape)
        case Graph():
            body = substituted(value, values)
            return value if body.outputs == value.outputs and body.inputs == value.inputs else body
        case tuple():
            parts = tuple(_value(v, values) for v in value)
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    return value


@contextmanager
def known_sizes() -> Iterator[None]:
    """Inside the block, errors about operations that need fixed sizes (random bits, for example)
    name the open size.
    """
    try:
        yield
    except OpenSize as error:
        raise UnsupportedError(
            Diagnostic("XL5010", str(error), hint="give it with --dim")
        ) from None


def of_sizes(
    model: Model | None,
    read: Callable[[Mapping[str, Any], Mapping[str, Any]], Model],
    sizes: Mapping[str, Any],
    values: Mapping[str, Any],
) -> Model:
    """A model for some sizes. One that its open sizes made assume what does not hold for these
    (that a slice ends inside) is read again for them, as one that cannot be read without is.
    """
    if model is None:
        return partly_open(read(sizes, values), sizes)
    try:
        return partly_open(model, sizes)
    except SourceError as error:
        if not all(isinstance(size, int) for size in sizes.values()):
            raise
        try:
            return partly_open(read(sizes, values), sizes)
        except SourceError:
            raise error from None
