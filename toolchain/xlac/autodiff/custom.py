"""Derivatives of operations that declare a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlac.autodiff.bodies import PullBack, Tangents
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.linearity import is_linear
from xlac.ir.graph import Graph, Node, pick, walk, zeros
from xlac.ops.control.custom_gradient import CustomChange, CustomGradient, floats
from xlac.ops.walks import closed, fresh


def custom_tangents(
    node: Node, op: CustomGradient, changes: Sequence[Node | None], pull: PullBack
) -> Tangents:
    """The changes of results of float types, by what the declared gradient is the transpose of."""
    assert op.gradient is not None
    results = [pick(node, n) for n in range(len(node.results))]
    wanted = tuple(floats(node.results))
    given = [
        change or zeros(i.type)
        for i, change in zip(node.inputs, changes, strict=True)
        if i.type.dtype.is_float
    ]
    change = CustomChange(op.gradient, _change(op.gradient, len(wanted), pull), wanted)
    linear = Node.of(change, *node.inputs, *results, *given, origin=node.origin)
    places = iter(range(len(wanted)))
    return tuple(pick(linear, next(places)) if t.dtype.is_float else None for t in node.results)


def _change(gradient: Graph, count: int, pull: PullBack) -> Graph | None:
    """The changes of `count` results: the transpose of a gradient, which is linear in the cotangents;
    None for one that is not.
    """
    known, cotangents = gradient.inputs[:-count], gradient.inputs[-count:]
    outputs = list(gradient.outputs.values())
    if not is_linear(outputs, cotangents):
        return None
    moves = fresh([o.type for o in outputs], "t")
    found = pull(outputs, moves, cotangents)
    gives = [f or zeros(c.type) for f, c in zip(found, cotangents, strict=True)]
    return closed(f"{gradient.name}_change", [*known, *moves], gives)


def check_forwards(changes: Iterable[Node]) -> None:
    """Raises NoDerivativeError where changes go through a declared gradient that is not linear: it says
    how to go backwards only.
    """
    for node in walk(changes):
        for body in () if isinstance(node.op, CustomChange) else node.op.bodies():
            check_forwards(body.outputs.values())
        if isinstance(node.op, CustomChange) and node.op.change is None:
            raise NoDerivativeError(
                node,
                "declares a gradient that is not linear in its cotangents, so there is no change forwards",
                "go backwards, or write a gradient that only adds and scales cotangents",
            )
