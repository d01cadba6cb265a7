"""Loop (ONNX operator sets 1 to 25): as a scan of known length, as a while loop, or unrolled at
import.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.frontends.known import DataDependent
from xlac.frontends.limits import STEPS, check_size
from xlac.frontends.onnx.graph import bodies
from xlac.frontends.onnx.graph.bodies import OnnxBody
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.values import Ragged, Value, nodes
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import MOST, BoundedWhile
from xlac.ops.control.control import Scan, While
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class OnnxLoop:
    """A Loop node: the maximum number of steps (None if unbounded), the initial condition, the
    body, and the carried values.
    """

    call: OperatorCall
    trips: Node | None
    condition: Node
    graph: Any
    carried: tuple[Value, ...]

    def known(self, node: Node | None) -> Any:
        """The value of a scalar if it is known, else None."""
        array = None if node is None else self.call.importer.known.constant(node)
        return None if array is None else array.reshape(-1)[0].item()

    def bound(self) -> Dim:
        """The maximum number of steps. Raises NeedsValue or DataDependent."""
        if self.trips is None:
            raise DataDependent("the loop has scan outputs but no maximum number of steps")
        (trips,) = self.call.importer.known.dims(self.trips)
        return max(0, trips) if isinstance(trips, int) else trips


@operator("Loop")
def loop(call: OperatorCall) -> tuple[Value, ...]:
    """A scan where the number of steps is known, else a while loop, whose scan outputs need a bound
    on the number of steps. A loop that changes the types of carried values is unrolled at import.
    """
    carried = tuple(v for v in call.inputs[2:] if v is not None)
    trips = None if call.get(0) is None else build.reshape(call[0], [])
    condition = build.constant(True) if call.get(1) is None else build.reshape(call[1], [])
    asked = OnnxLoop(call, trips, condition, call.attr("body"), carried)
    step = build.param("step", DType.I64)
    # the body runs only if the condition is true
    inputs = [
        step,
        build.constant(True),
        *(bodies.fresh(v, f"carried{n}") for n, v in enumerate(carried)),
    ]
    body = bodies.imported(call.importer, asked.graph, inputs)
    if not _steady(asked, body):
        return _stepped(asked, body)
    always = asked.known(body.outputs()[0])
    first = asked.known(condition)
    stacks = len(body.outputs()) > 1 + len(carried)
    if first is False:
        return _scanned(asked, body, 0)
    if always and first and trips is not None and (stacks or asked.known(trips) is not None):
        return _scanned(asked, body, asked.bound())
    bound = asked.bound() if stacks else 1
    return _repeated(asked, body, bound) if bound != 0 else _scanned(asked, body, 0)


def _steady(asked: OnnxLoop, body: OnnxBody) -> bool:
    """Whether every step returns plain tensors, and carried values keep their types."""
    if not body.plain or not all(isinstance(v, Node) for v in asked.carried):
        return False
    given = [node.type for value in asked.carried for node in nodes(value)]
    return [n.type for n in body.outputs()[1 : 1 + len(given)]] == given


def _first(asked: OnnxLoop) -> list[Node]:
    return [node for value in asked.carried for node in nodes(value)]


def _scanned(asked: OnnxLoop, body: OnnxBody, length: Dim) -> tuple[Value, ...]:
    """A loop whose number of steps is known before it starts."""
    step, *carried = body.params
    first, outside = _first(asked), list(body.captures.inside)
    results = body.outputs()[1:]
    for stacked in results[len(first) :]:
        check_size((length, *stacked.shape), stacked.type.dtype.nbytes)
    graph = body.captures.closed("loop", (*carried, step), outside, results)
    op = Scan(graph, length, carries=len(first), scanned=1)
    return build.results(Node.of(op, *first, build.iota((length,), 0), *outside))


def _repeated(asked: OnnxLoop, body: OnnxBody, bound: Dim) -> tuple[Value, ...]:
    """A while loop; its scan outputs are allocated for `bound` steps."""
    step, *carried = body.params
    first, outside = _first(asked), list(body.captures.inside)
    again, *results = body.outputs()
    stacked = results[len(first) :]
    for value in stacked:
        check_size((bound, *value.shape), value.type.dtype.nbytes)
    room = [build.full(0, (bound, *v.shape), v.type.dtype) for v in stacked]
    trips = build.constant(np.asarray((1 << 63) - 1)) if asked.trips is None else asked.trips
    types = [Type(DType.BOOL), Type(DType.I64), *(n.type for n in (*first, *room, trips, *outside))]

    going = build.graph(
        "condition",
        types,
        lambda go, at, *rest: build.apply1(
            "and", go, build.compare(at, "lt", rest[len(first) + len(room)])
        ),
    )
    buffers = [build.param(f"room{at}", n.type.dtype, n.shape) for at, n in enumerate(room)]
    flag, limit = build.param("going", DType.BOOL), build.param("trips", DType.I64)
    written = [
        _written(buffer, value, step) for buffer, value in zip(buffers, stacked, strict=True)
    ]
    rest = [body.captures.inside[node] for node in outside]
    inputs = (flag, step, *carried, *buffers, limit, *rest)
    outputs = (
        build.reshape(again, []),
        build.add(step, 1),
        *results[: len(first)],
        *written,
        limit,
        *rest,
    )
    turn = Graph("loop", inputs, {f"y{n}": node for n, node in enumerate(outputs)})
    most = asked.known(asked.trips)  # only a bounded loop has gradients
    op: Op = While(going, turn)
    if isinstance(most, int) and 0 <= most <= MOST:
        op = BoundedWhile(going, turn, most)
    begin = (asked.condition, build.constant(np.asarray(0)), *first, *room, trips, *outside)
    _, count, *carried_and_stacked = build.results(Node.of(op, *begin))
    last = carried_and_stacked[: len(first)]
    return (
        *last,
        *(
            Ragged(node, ((0, count),))
            for node in carried_and_stacked[len(first) : len(first) + len(room)]
        ),
    )


def _written(buffer: Node, value: Node, step: Node) -> Node:
    """A buffer with the value written at the index of the step."""
    zero = build.constant(np.asarray(0))
    return build.apply1(
        "dyn_update",
        buffer,
        build.reshape(value, [1, *value.shape]),
        step,
        *[zero] * value.type.rank,
    )


def _stepped(asked: OnnxLoop, body: OnnxBody) -> tuple[Value, ...]:
    """Unrolls a loop whose steps differ in types or shapes."""
    bound = asked.bound() if asked.trips is not None else STEPS
    if not isinstance(bound, int):
        raise DataDependent(f"the loop has {bound} steps, which change what is carried")
    carried = asked.carried
    rows: list[tuple[Value, ...]] = []
    going = bool(asked.call.importer.known.array(asked.condition).reshape(-1)[0])
    while going and len(rows) < bound:
        if len(rows) == STEPS:
            raise DataDependent(
                f"the loop has more than {STEPS} steps, which change what is carried"
            )
        step = build.constant(np.asarray(len(rows)))
        again, *results = bodies.inline(
            asked.call.importer, asked.graph, (step, build.constant(True), *carried)
        )
        carried = tuple(results[: len(carried)])
        rows.append(tuple(results[len(carried) :]))
        assert isinstance(again, Node)
        going = bool(asked.call.importer.known.array(again).reshape(-1)[0])
    return (*carried, *_stacked(rows, asked, body))


def _stacked(rows: Sequence[tuple[Value, ...]], asked: OnnxLoop, body: OnnxBody) -> list[Value]:
    """The values of all steps stacked along a new axis."""
    if rows:
        columns = list(zip(*rows, strict=True))
        return [
            build.apply1("stack", *[v for v in column if isinstance(v, Node)], axis=0)
            for column in columns
        ]
    if body.trial.values is None:
        asked.call.importer.problems += body.trial.problems
        raise DataDependent(
            "the loop runs no step, and the types that a step would give are not known"
        )
    stacked = [v for v in body.values[1 + len(asked.carried) :] if isinstance(v, Node)]
    return [build.full(0, (0, *v.shape), v.type.dtype) for v in stacked]
