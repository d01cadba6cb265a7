"""Declared gradients of the user's own operations."""

from __future__ import annotations

from xlac.ir.graph import Graph, Node
from xlac.ops.tensor.leaf import Param
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import as_node
from xlac.spec.elaborate.scope import Frame, Scope
from xlac.spec.report import Fault, Poisoned
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry


def gradient(
    context: Elaboration, entry: SpecEntry[schema.OpSpec], body: Graph, around: Scope, path: str
) -> Graph:
    """The graph of a declared gradient, for the reference graph `body`. Raises Fault or
    Poisoned.
    """
    place, entries = entry.place.at("gradient"), entry.spec.gradient
    assert entries is not None
    types = {k: n.type for k, n in zip(entry.spec.inputs, body.inputs, strict=True)}
    results = {k: n.type for k, n in body.outputs.items()}
    known = types | results | {f"d_{k}": t for k, t in results.items() if t.dtype.is_float}
    if len(known) < len(types) + 2 * len(results) - sum(
        not t.dtype.is_float for t in results.values()
    ):
        problem = (
            "operands, results and cotangents (d_ before the name) are told apart by their names"
        )
        raise Fault("XL1021", problem, place.key)
    inner = Scope(Frame(), around.constants, f"{path}.gradient.")
    inner.values.update({k: Node.of(Param(k, t)) for k, t in known.items()})
    params = [inner.values[k] for k in known]
    before = len(context.weights)
    elaborate(context, inner, entries_at(entries, place))
    if len(context.weights) > before:
        raise Fault("XL2012", "a gradient learns no tensors", place.key)
    cotangents: dict[str, Node] = {}
    for key, type in types.items():
        name = f"d_{key}"
        if not type.dtype.is_float:
            continue
        if name not in inner.values or name in known:
            hint = f"{name}: zeros_like({key}), where the results do not change with it"
            raise Fault("XL1011", f"gradient does not say {name!r}", place.key, hint)
        if (value := inner.values[name]) is None:
            raise Poisoned
        node = as_node(context, value, name, path, place.at(name))
        if node.type != type:
            problem = f"{name!r} is of the type of {key!r}, {type}, and this is {node.type}"
            raise Fault("XL2013", problem, place.at(name).span)
        cotangents[name] = node
    return Graph(
        f"{body.name}.gradient", tuple(p for p in params if isinstance(p, Node)), cotangents
    )
