"""LinearAttention, whose past is a state of fixed size, and the causal convolution that precedes
it.
"""

from __future__ import annotations

import math

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.attention.heads import apart, grouped, joined
from xlac.frontends.onnx.ops.nn.convolution import letters
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.ops.reduction import conv
from xlac_sdk.dtypes import DType

RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}
"""For each update rule: whether the state decays, and whether the delta rule is used, which writes
only the difference to what the state already predicts.
"""


@operator("LinearAttention", since=27)
def linear_attention(call: OperatorCall) -> tuple[Node, Node]:
    """Operator set 27: a recurrence over a state (batch, heads, keys, values) in f32, which each
    step decays, updates and reads.
    """
    rule = call.attr("update_rule", "gated_delta")
    if rule not in RULES:
        call.fail(f"update_rule is one of {', '.join(RULES)}, not '{rule}'")
    gated, corrected = RULES[rule]
    past, decay, beta = call.get(3), call.get(4), call.get(5)
    if (decay is not None) != gated or (beta is not None) != corrected:
        call.fail(
            f"'{rule}' takes {'a' if gated else 'no'} decay and {'a' if corrected else 'no'} beta"
        )
    q_heads, kv_heads = call.attr("q_num_heads"), call.attr("kv_num_heads")
    q, k, v = (
        build.cast(apart(call[n], h), DType.F32)
        for n, h in ((0, q_heads), (1, kv_heads), (2, kv_heads))
    )
    batch, _, time, width = q.shape
    scale = call.attr("scale", 0.0) or _root(width)
    steps = [_by_time(grouped(q, kv_heads), 3), _by_time(k, 2), _by_time(v, 2)]
    if decay is not None:
        per_head = decay.shape[-1] == kv_heads
        wide = (
            build.reshape(decay, (batch, time, kv_heads, -1))
            if per_head
            else build.transpose(apart(decay, kv_heads), (0, 2, 1, 3))
        )
        steps.append(build.transpose(build.cast(wide, DType.F32), (1, 0, 2, 3)))
    if beta is not None:
        steps.append(
            build.transpose(
                build.cast(build.reshape(beta, (*beta.shape, 1)), DType.F32), (1, 0, 2, 3)
            )
        )
    shape = (batch, kv_heads, width, v.shape[3])
    first = build.full(0.0, shape, DType.F32) if past is None else build.cast(past, DType.F32)
    last, read = _recurrence(first, steps, gated, corrected, time)
    # from (time, batch, heads, group, values)
    y = build.transpose(build.mul(read, scale), (1, 2, 3, 0, 4))
    y = joined(build.reshape(y, (batch, q_heads, time, v.shape[3])))
    return build.cast(y, call[0].type.dtype), build.cast(last, (past or call[0]).type.dtype)


def _root(width: object) -> float:
    if not isinstance(width, int) or not width:
        raise ShapeError(f"the width of the keys must be known, got {width}")
    return 1 / math.sqrt(width)


def _by_time(x: Node, axis: int) -> Node:
    """Moves the time axis to the front."""
    return build.transpose(x, (axis, *(a for a in range(x.type.rank) if a != axis)))


def _recurrence(
    first: Node, steps: list[Node], gated: bool, corrected: bool, time: object
) -> tuple[Node, Node]:
    """The final state, and the value that each step reads from its updated state."""

    def step(state: Node, q: Node, k: Node, v: Node, *gates: Node) -> tuple[Node, Node]:
        if gated:
            decay = build.exp(gates[0])
            state = build.mul(state, build.reshape(decay, (*decay.shape, 1)))
        if corrected:
            known = build.dot(state, k, ((2,), (2,)), ((0, 1), (0, 1)))
            v = build.mul(gates[-1], build.sub(v, known))
        state = build.add(
            state,
            build.mul(
                build.reshape(k, (*k.shape, 1)), build.reshape(v, (*v.shape[:2], 1, v.shape[2]))
            ),
        )
        return state, build.dot(q, state, ((3,), (2,)), ((0, 1), (0, 1)))

    types = [first.type, *(s.type.with_shape(s.shape[1:]) for s in steps)]
    op = Scan(build.graph("step", types, step), time, 1, len(steps))  # type: ignore[arg-type]
    last, read = build.results(Node.of(op, first, *steps))
    return last, read


@operator("CausalConvWithState", since=27)
def causal_convolution(call: OperatorCall) -> tuple[Node, Node]:
    """Operator set 27: a depthwise causal convolution, preceded by the last k - 1 elements of the
    past; also returns those for the next call.
    """
    x, weight, bias, past = call[0], call[1], call.get(2), call.get(3)
    activation = call.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        call.fail(f"activation is none, silu or swish, not '{activation}'")
    taps, channels = weight.shape[-1], x.shape[1]
    if x.type.rank != 3 or not isinstance(taps, int) or not isinstance(channels, int):
        raise ShapeError(
            f"CausalConvWithState takes (batch, channels, time) and a known kernel, got {x.type} "
            f"and {weight.type}"
        )
    before = build.full(0, (*x.shape[:2], taps - 1), x.type.dtype) if past is None else past
    whole = build.concat((before, x), 2)
    axes = letters(1)
    op = conv.Conv(
        (f"NC{axes}", f"OI{axes}", f"NC{axes}"),
        (1,),
        (0,),
        (0,),
        (1,),
        (1,),
        channels,
        1,
        x.type.dtype.compute,
    )
    convolved = Node.of(op, whole, weight)
    if bias is not None:
        convolved = build.add(convolved, build.along(build.compute(bias), 1, 3, convolved.shape))
    y = build.cast(convolved, x.type.dtype)
    if activation != "none":
        y = build.apply1("silu", y)
    return y, build.cut(whole, 2, whole.shape[2] - (taps - 1), whole.shape[2])
