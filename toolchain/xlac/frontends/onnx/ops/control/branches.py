"""If (ONNX operator sets 1 to 25)."""

from __future__ import annotations

from typing import Any

from xlac.frontends.known import DataDependent
from xlac.frontends.onnx.graph import bodies
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.control.control import Cond
from xlac_sdk.dtypes import DType


@operator("If")
def if_(call: OperatorCall) -> tuple[Value, ...]:
    """If: builds only the taken body when the condition is known at import."""
    condition = build.reshape(call[0], [])
    then, otherwise = call.attr("then_branch"), call.attr("else_branch")
    known = call.importer.known.constant(condition)
    if known is None:
        chosen = _both(call, condition, otherwise, then)
        if chosen is not None:
            return chosen
        # raises NeedsValue with the inputs that decide it
        known = call.importer.known.array(condition)
    return bodies.inline(call.importer, then if known.reshape(-1)[0] else otherwise, ())


def _both(call: OperatorCall, condition: Node, *graphs: Any) -> tuple[Value, ...] | None:
    """A conditional in the compiled program; None if the bodies do not return tensors of equal
    types.
    """
    imported = [bodies.imported(call.importer, graph, ()) for graph in graphs]
    if not all(body.plain for body in imported):
        _report_problems(call, imported)
        return None
    if [n.type for n in imported[0].outputs()] != [n.type for n in imported[1].outputs()]:
        return None
    outside = list(dict.fromkeys(node for body in imported for node in body.captures.inside))
    branches = tuple(
        body.captures.closed(f"branch{n}", (), outside, body.outputs())
        for n, body in enumerate(imported)
    )
    return build.results(Node.of(Cond(branches), build.cast(condition, DType.I32), *outside))


def _report_problems(call: OperatorCall, imported: list[bodies.OnnxBody]) -> None:
    """Reports the problems of the branches, unless the caller may still fix the condition."""
    try:
        call.importer.known.array(call[0])
    except DataDependent:
        for body in imported:
            call.importer.problems += body.trial.problems
            call.importer.needed |= body.trial.needed
