"""Derivatives of operations that declare a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xlac.autodiff.bodies import PullBack, Tangents
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.linearity import is_linear
from xlac.ir.graph import Graph, Node, pick, walk, zeros
from xlac.ops.control.custom_gradient import CustomChange, CustomGradient, floats
from xlac.ops.walks import closed, fresh


def custom_jvp(
    node: Node, op: CustomGradient, tangents: Sequence[Node | None], pull: PullBack
) -> Tangents:
    """The tangents of the results of float types: the transpose of the declared gradient, where
    that is linear in its cotangents.
    """
    assert op.gradient is not None
    results = [pick(node, n) for n in range(len(node.results))]
    wanted = tuple(floats(node.results))
    given = [
        tangent or zeros(i.type)
        for i, tangent in zip(node.inputs, tangents, strict=True)
        if i.type.dtype.is_float
    ]
    tangent = CustomChange(op.gradient, _tangent_body(op.gradient, len(wanted), pull), wanted)
    linear = Node.of(tangent, *node.inputs, *results, *given, origin=node.origin)
    places = iter(range(len(wanted)))
    return tuple(pick(linear, next(places)) if t.dtype.is_float else None for t in node.results)


def _tangent_body(gradient: Graph, count: int, pull: PullBack) -> Graph | None:
    """The body that computes the tangents of `count` results: the transpose of a gradient. None for
    a gradient that is not linear in the cotangents.
    """
    known, cotangents = gradient.inputs[:-count], gradient.inputs[-count:]
    outputs = list(gradient.outputs.values())
    if not is_linear(outputs, cotangents):
        return None
    moves = fresh([o.type for o in outputs], "t")
    transposed = pull(outputs, moves, cotangents)
    gives = [f or zeros(c.type) for f, c in zip(transposed, cotangents, strict=True)]
    return closed(f"{gradient.name}_change", [*known, *moves], gives)


def check_forward_mode(tangents: Iterable[Node]) -> None:
    """Raises NoDerivativeError where tangents depend on a declared gradient that is not linear in
    its cotangents, which has a meaning in reverse mode only.
    """
    for node in walk(tangents):
        for body in () if isinstance(node.op, CustomChange) else node.op.bodies():
            check_forward_mode(body.outputs.values())
        if isinstance(node.op, CustomChange) and node.op.change is None:
            raise NoDerivativeError(
                node,
                "declares a gradient that is not linear in its cotangents, so it has no "
                "forward mode",
                "use reverse mode, or a gradient that only adds and scales cotangents",
            )
