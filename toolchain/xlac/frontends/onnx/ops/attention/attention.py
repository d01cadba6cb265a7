"""Attention and FlexAttention, the latter with subgraphs of the model inside."""

from __future__ import annotations

from dataclasses import replace

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.graph.scope import GraphScope
from xlac.frontends.onnx.ops.attention import heads
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType

# the values of `qk_matmul_output_mode`: which scores are returned
RAW, CAPPED, BIASED, PROBABILITIES = range(4)


@operator("Attention", since=23)
def attention(call: OperatorCall) -> tuple[Node, ...]:
    """Operator sets 23, 24 (lengths without padding) and 25 (windows): y, present keys and values,
    scores.
    """
    q, k, v = (call[n] for n in range(3))
    mask, past_k, past_v, lengths = (call.get(n) for n in range(3, 7))
    q_heads, kv_heads = call.attr("q_num_heads", 0), call.attr("kv_num_heads", 0)
    if (past_k is None) != (past_v is None) or (past_k is not None and lengths is not None):
        raise ShapeError("past keys and past values come together, and not with nonpad_kv_seqlen")
    if _usual(call, q, k):
        given = {
            "heads": q_heads,
            "kv_heads": kv_heads,
            "causal": bool(call.attr("is_causal", 0)),
            "scale": _scale(call),
        }
        return (build.apply1("attention", q, k, v, **given),)
    queries, keys, values = (
        heads.apart(q, q_heads),
        heads.apart(k, kv_heads),
        heads.apart(v, kv_heads),
    )
    offset: Node | int = 0
    if past_k is not None and past_v is not None:
        keys, values = build.concat((past_k, keys), 2), build.concat((past_v, values), 2)
        offset = heads.length(past_k, 2)
    elif lengths is not None:
        time = heads.length(queries, 2)
        offset = build.sub(
            build.cast(lengths, DType.I64),
            time if isinstance(time, int) else build.cast(time, DType.I64),
        )
    sight = _sight(call, queries, keys, heads.masked(mask, keys.shape[2]), offset, lengths)
    raw = heads.scores(queries, keys, _scale(call))
    capped = heads.capped(raw, call.attr("softcap", 0.0))
    biased = sight.applied(capped)
    weights = sight.probabilities(
        build.cast(biased, call.dtype("softmax_precision", biased.type.dtype))
    )
    y = heads.values(weights, values)
    shown = (raw, capped, biased, weights)[call.attr("qk_matmul_output_mode", RAW)]
    return y if q.type.rank == 4 else heads.joined(y), keys, values, build.cast(shown, q.type.dtype)


def _scale(call: OperatorCall) -> float | None:
    scale: float | None = call.attr("scale", None)
    return scale


def _usual(call: OperatorCall, q: Node, k: Node) -> bool:
    """Whether xlac's `attention` operation computes the same: no mask, no past, one output, and as
    many keys as queries if causal.
    """
    plain = all(call.get(n) is None for n in range(3, 7)) and not any(
        call.wants(n) for n in range(1, 4)
    )
    tuned = call.attr("softcap", 0.0) or "softmax_precision" in call.attributes
    windows = call.attr("left_window_size", -1) >= 0 or call.attr("right_window_size", -1) >= 0
    axis = 1 if q.type.rank == 3 else 2
    return (
        plain
        and not tuned
        and not windows
        and (not call.attr("is_causal", 0) or q.shape[axis] == k.shape[axis])
    )


def _sight(
    call: OperatorCall,
    q: Node,
    k: Node,
    sight: heads.Sight,
    offset: Node | int,
    lengths: Node | None,
) -> heads.Sight:
    """The mask, restricted by causality, sliding windows and the lengths without padding."""
    queries, keys = q.shape[2], k.shape[2]
    left, right = call.attr("left_window_size", -1), call.attr("right_window_size", -1)
    causal = call.attr("is_causal", 0)
    blind = lengths is not None  # a negative offset hides every key
    if causal or left >= 0 or right >= 0:
        gap = heads.distance(queries, keys, offset)
        if causal:
            sight = sight.also(build.compare(gap, "ge", 0), blind)
        if left >= 0:
            sight = sight.also(build.compare(gap, "le", left), True)
        if right >= 0:
            sight = sight.also(build.compare(gap, "ge", -right), True)
    if lengths is not None:
        places = build.iota((1, 1, 1, keys), 3)
        inside = build.compare(
            places, "lt", build.reshape(build.cast(lengths, DType.I64), (-1, 1, 1, 1))
        )
        sight = sight.also(inside, True)
    return replace(sight, blind=sight.blind or blind)


@operator("FlexAttention", since=1, domain="ai.onnx.preview")
def flex_attention(call: OperatorCall) -> Node:
    """Preview operator set 1: subgraphs of the model modify the scores and the probabilities."""
    q, k, v = (call[n] for n in range(3))
    dtype = call.dtype("softmax_precision", DType.F64 if q.type.dtype is DType.F64 else DType.F32)
    scores = build.cast(heads.scores(q, k, _scale(call)), dtype)
    scores = _modified(call, "score_mod", scores)
    weights = _modified(call, "prob_mod", build.apply1("softmax", scores, axis=-1))
    return build.cast(heads.values(weights, build.cast(v, dtype)), v.type.dtype)


def _modified(call: OperatorCall, attribute: str, x: Node) -> Node:
    body = call.attr(attribute, None)
    if body is None:
        return x
    if len(body.input) != 1 or len(body.output) != 1:
        raise ShapeError(f"'{attribute}' takes one tensor and gives one", attribute=attribute)
    outer = call.importer.scope
    (modified,) = call.importer.body(
        body, GraphScope({body.input[0].name: x}, outer, outer.versions)
    )
    if not isinstance(modified, Node) or modified.type != x.type:
        raise ShapeError(f"'{attribute}' changes the type {x.type}", attribute=attribute)
    return modified
