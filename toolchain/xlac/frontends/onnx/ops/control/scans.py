"""Scan (ONNX operator sets 8 to 25)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlac.frontends.limits import STEPS, check_parts
from xlac.frontends.onnx.graph import bodies
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Value
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac.ops.control.control import Scan as Steps


@operator("Scan", since=8)
def scan_batched(call: OperatorCall) -> tuple[Value, ...]:
    """Scans each entry of the batch (axis 0 of all tensors) separately; all sequences must have
    full length.
    """
    if call.given(0) is not None:
        call.fail("sequences of different lengths are not supported")
    inputs = [call[n] for n in range(1, len(call))]
    scanned = call.attr("num_scan_inputs")
    directions = call.attr("directions", [])
    batch = inputs[0].shape[0]
    if not isinstance(batch, int):
        call.fail(f"the batch size {batch} must be known")
    rows = []
    for entry in range(check_parts(batch, STEPS)):
        own = [build.reshape(build.cut(x, 0, entry, entry + 1), x.shape[1:]) for x in inputs]
        rows.append(_scanned(call, own, scanned, directions, [], [], []))
    return tuple(build.apply1("stack", *column, axis=0) for column in zip(*rows, strict=True))


@operator("Scan", since=9)
def scan(call: OperatorCall) -> tuple[Value, ...]:
    """Runs the body once for each slice of the scanned inputs; carried values come first."""
    count = call.attr("num_scan_inputs")
    axes, back = call.attr("scan_input_axes", []), call.attr("scan_input_directions", [])
    return _scanned(
        call,
        list(call),
        count,
        back,
        axes,
        call.attr("scan_output_directions", []),
        call.attr("scan_output_axes", []),
    )


def _scanned(
    call: OperatorCall,
    inputs: Sequence[Node],
    scanned: int,
    back: Sequence[int],
    axes: Sequence[int],
    back_out: Sequence[int],
    axes_out: Sequence[int],
) -> tuple[Node, ...]:
    carries = len(inputs) - scanned
    if scanned < 1 or carries < 0:
        call.fail(f"{scanned} of {len(inputs)} inputs are scanned")
    xs = [_first(x, _at(axes, n), _at(back, n)) for n, x in enumerate(inputs[carries:])]
    first = inputs[:carries]
    params = [build.param(f"carried{at}", n.type.dtype, n.shape) for at, n in enumerate(first)]
    params += [build.param(f"slice{at}", x.type.dtype, x.shape[1:]) for at, x in enumerate(xs)]
    body = bodies.imported(call.importer, call.attr("body"), params)
    if not body.plain:
        call.importer.problems += body.trial.problems
        call.importer.needed |= body.trial.needed
        call.fail("its body cannot be imported")
    outside = list(body.captures.inside)
    graph = body.captures.closed("scan", params, outside, body.outputs())
    op = Steps(graph, xs[0].shape[0], carries=carries, scanned=scanned)
    results = build.results(Node.of(op, *first, *xs, *outside))
    stacked = [
        _last(y, _at(axes_out, n), _at(back_out, n)) for n, y in enumerate(results[carries:])
    ]
    return (*results[:carries], *stacked)


def _at(values: Sequence[Any], number: int) -> int:
    return int(values[number]) if number < len(values) else 0


def _first(x: Node, axis: int, back: int) -> Node:
    """x with its scanned axis first, reversed if `back`."""
    axis = normal_axis(axis, x.type.rank)
    moved = build.transpose(x, [axis, *(a for a in range(x.type.rank) if a != axis)])
    return build.apply1("flip", moved, axis=0) if back else moved


def _last(y: Node, axis: int, back: int) -> Node:
    """A stacked result with its axis 0 moved to `axis`, reversed if `back`."""
    axis = normal_axis(axis, y.type.rank)
    order = [*range(1, axis + 1), 0, *range(axis + 1, y.type.rank)]
    return build.transpose(build.apply1("flip", y, axis=0) if back else y, order)
