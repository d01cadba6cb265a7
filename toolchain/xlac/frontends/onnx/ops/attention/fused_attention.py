"""Attention of com.microsoft (version 1): Attention, MultiHeadAttention, GroupQueryAttention,
RotaryEmbedding.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.attention import heads
from xlac.frontends.onnx.ops.attention.heads import Sight
from xlac.frontends.onnx.ops.attention.rotary import rotated
from xlac.frontends.onnx.registry import MICROSOFT, operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac_sdk.dtypes import DType


def _scale(call: OperatorCall) -> float | None:
    return call.attr("scale", 0.0) or None


def _attended(call: OperatorCall, q: Node, k: Node, v: Node, sight: Sight) -> Node:
    """Attention of separate heads, merged into (batch, time, heads * width)."""
    scores = sight.applied(
        heads.capped(heads.scores(q, k, _scale(call)), call.attr("softcap", 0.0))
    )
    return heads.joined(heads.values(sight.probabilities(scores), v))


def _biased(sight: Sight, bias: Node | None) -> Sight:
    if bias is None:
        return sight
    return Sight(
        bias if sight.bias is None else build.add(sight.bias, bias), sight.allowed, sight.blind
    )


def _padding(call: OperatorCall, mask: Node, queries: Dim, keys: Dim) -> Sight:
    """The attention mask for an integer mask: `mask_filter_value` is added to the scores where it
    is 0.

    The integer mask is (batch, keys) or (batch, queries, keys), or key counts (batch), or (2 batch)
    ends followed by starts.
    """
    hidden = call.attr("mask_filter_value", -10000.0)
    if mask.type.rank == 1:
        at = build.iota((1, keys), 1)
        batch = call[0].shape[0]
        ends = build.cast(build.reshape(build.cut(mask, 0, 0, batch), (batch, 1)), DType.I64)
        kept = build.compare(at, "lt", ends)
        if mask.shape[0] != batch:
            first = build.cast(
                build.reshape(build.cut(mask, 0, batch, batch * 2), (batch, 1)), DType.I64
            )
            kept = build.apply1("and", kept, build.compare(at, "ge", first))
    elif mask.type.rank <= 3:
        kept = build.compare(mask, "ne", 0)
    else:
        raise ShapeError(f"a mask of {mask.type} is not supported")
    shape = (
        (kept.shape[0], 1, 1, keys) if kept.type.rank == 2 else (kept.shape[0], 1, *kept.shape[1:])
    )
    return Sight(build.select(build.reshape(kept, shape), build.constant(0.0), hidden))


@operator("Attention", domain=MICROSOFT)
def attention(call: OperatorCall) -> tuple[Node, ...]:
    """Self-attention including its input projection: y, and present keys and values (2, batch,
    heads, time, width).
    """
    x, weight, bias, mask, past, extra = (
        call[0],
        call[1],
        call.get(2),
        call.get(3),
        call.get(4),
        call.get(5),
    )
    if call.attr("do_rotary", 0) or call.get(6) is not None:
        call.fail("do_rotary and a shared buffer of past and present are not supported")
    count = call.attr("num_heads")
    projected = build.dot(x, weight, ((2,), (0,)))
    if bias is not None:
        projected = build.add(projected, bias)
    sizes = call.attr("qkv_hidden_sizes", None) or [weight.shape[1] // 3] * 3
    ends = np.cumsum([0, *sizes])
    q, k, v = (
        heads.apart(build.cut(projected, 2, int(a), int(b)), count) for a, b in pairwise(ends)
    )
    offset: Node | int = 0
    if past is not None:
        old = [build.reshape(build.cut(past, 0, n, n + 1), past.shape[1:]) for n in range(2)]
        k, v = build.concat((old[0], k), 2), build.concat((old[1], v), 2)
        offset = heads.length(old[0], 2)
    sight = Sight() if mask is None else _padding(call, mask, q.shape[2], k.shape[2])
    if call.attr("unidirectional", 0):
        sight = sight.also(build.compare(heads.distance(q.shape[2], k.shape[2], offset), "ge", 0))
    y = _attended(call, q, k, v, _biased(sight, extra))
    present = build.apply1("stack", k, v, axis=0) if call.wants(1) else y
    return y, present


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(call: OperatorCall) -> tuple[Node, ...]:
    """y, present keys and values. Queries, keys and values are apart, or packed: (batch, time,
    heads, 3 or 2, width).
    """
    query, key, value, bias, mask, extra, past_k, past_v = (call.get(n) for n in range(8))
    count = call.attr("num_heads")
    if query is None:
        call.fail("queries are missing")
    if call.get(8) is not None or call.get(9) is not None:
        call.fail("a shared buffer of past and present is not supported")
    biases = _biases(bias, query, value, count)
    if key is None:  # queries, keys and values packed into one input
        q, k, v = (_unpacked(query, n, biases[n]) for n in range(3))
    elif value is None and key.type.rank == 5:
        q = _headed(query, biases[0], count)
        k, v = (_unpacked(key, n, biases[n + 1]) for n in range(2))
    else:
        if value is None:
            call.fail("values are missing")
        q, k, v = (_headed(n, b, count) for n, b in zip((query, key, value), biases, strict=True))
    offset: Node | int = 0
    if past_k is not None and past_v is not None:
        k, v = build.concat((past_k, k), 2), build.concat((past_v, v), 2)
        offset = heads.length(past_k, 2)
    sight = Sight() if mask is None else _padding(call, mask, q.shape[2], k.shape[2])
    if call.attr("unidirectional", 0):
        sight = sight.also(build.compare(heads.distance(q.shape[2], k.shape[2], offset), "ge", 0))
    return _attended(call, q, k, v, _biased(sight, extra)), k, v


def _biases(bias: Node | None, query: Node, value: Node | None, count: int) -> list[Node | None]:
    """The parts of a bias for queries, keys and values."""
    if bias is None:
        return [None, None, None]
    width = query.shape[2] if query.type.rank == 3 else count * query.shape[4]
    last = bias.shape[0]
    return [
        build.cut(bias, 0, 0, width),
        build.cut(bias, 0, width, width * 2),
        build.cut(bias, 0, width * 2, last),
    ]


def _headed(x: Node, bias: Node | None, count: int) -> Node:
    """Adds the bias and splits the heads; an input of rank 4 has both done already."""
    if x.type.rank == 4:
        return x
    return heads.apart(x if bias is None else build.add(x, bias), count)


def _unpacked(x: Node, number: int, bias: Node | None) -> Node:
    batch, time, count, _, width = x.shape
    part = build.reshape(build.cut(x, 3, number, number + 1), (batch, time, count, width))
    if bias is not None:
        part = build.add(part, build.reshape(bias, (count, width)))
    return build.transpose(part, (0, 2, 1, 3))


# ---- grouped queries -------------------------------------------------------------------------


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(call: OperatorCall) -> tuple[Node, ...]:
    """y, present keys and values; causal. Input 5 is the last valid position of each example, input
    6 the total number of keys.
    """
    query, key, value, past_k, past_v = (call.get(n) for n in range(5))
    count, shared = call.attr("num_heads"), call.attr("kv_num_heads")
    if query is None:
        call.fail("queries are missing")
    for number, name in ((11, "head_sink"), (12, "k_scale"), (13, "v_scale")):
        if call.given(number) is not None:
            call.fail(f"{name} is not supported")
    if call.attr("smooth_softmax", 0) > 0:
        call.fail("smooth_softmax is not supported")
    if key is None or value is None:
        q, k, v = _split(query, count, shared)
    else:
        q, k, v = heads.apart(query, count), heads.apart(key, shared), heads.apart(value, shared)
    time = q.shape[2]
    until = build.add(build.cast(build.reshape(call[5], (-1,)), DType.I64), 1)
    new = heads.length(q, 2)
    # (batch)
    before = build.maximum(
        build.sub(until, new if isinstance(new, int) else build.cast(new, DType.I64)), 0
    )
    positions = call.get(9)
    if positions is None:
        positions = build.add(build.reshape(before, (-1, 1)), build.iota((1, time), 1))
    if call.attr("do_rotary", 0):
        cosine, sine = (build.take(call[n], positions, 0) for n in (7, 8))
        width, interleaved = 2 * fixed(call[7], 1), bool(call.attr("rotary_interleaved", 0))
        q, k = (rotated(x, cosine, sine, 1, width=width, interleaved=interleaved) for x in (q, k))
    if past_k is not None and past_v is not None and past_k.shape[2] != 0:
        whole = _total(call, past_k, time)
        k, v = (_continued(past, x, before, whole) for past, x in ((past_k, k), (past_v, v)))
    gap = heads.distance(time, k.shape[2], before)
    sight = Sight().also(build.compare(gap, "ge", 0))
    window = call.attr("local_window_size", -1)
    if window > 0:
        sight = sight.also(build.compare(gap, "lt", window))
    return _attended(call, q, k, v, _biased(sight, call.get(10))), k, v


def _split(packed: Node, count: int, shared: int) -> tuple[Node, Node, Node]:
    """Splits queries, keys and values that are concatenated along the last axis."""
    hidden = packed.shape[2]
    if not isinstance(hidden, int) or hidden % (count + 2 * shared):
        parts = f"{count} heads of queries and {shared} of keys and of values"
        raise ShapeError(heads.undivided(packed, parts))
    width = hidden // (count + 2 * shared)
    ends = [0, count * width, (count + shared) * width, hidden]
    q, k, v = (build.cut(packed, 2, a, b) for a, b in pairwise(ends))
    return heads.apart(q, count), heads.apart(k, shared), heads.apart(v, shared)


def _total(call: OperatorCall, past: Node, time: Dim) -> Dim:
    """The capacity of the present keys: the total number of keys, or the past's capacity if that is
    larger.
    """
    (total,) = call.dims(6)
    room = past.shape[2]
    return max(total, room) if isinstance(total, int) and isinstance(room, int) else total


def _continued(past: Node, new: Node, before: Node, whole: Dim) -> Node:
    """Writes the new entries after the valid past entries of each example, in a buffer of capacity
    `whole`.
    """
    batch, shared, room, width = past.shape
    time = fixed(new, 2)
    wide = build.pad(past, 0, (0, 0, 0, 0), (0, 0, whole - room, 0))
    if batch == 1:
        zero = build.constant(0, DType.I64)
        return Node.of(DynUpdate(), wide, new, zero, zero, build.reshape(before, ()), zero)
    # index into the new entries
    at = build.sub(build.iota((1, whole), 1), build.reshape(before, (-1, 1)))
    inside = build.apply1("and", build.compare(at, "ge", 0), build.compare(at, "lt", time))
    held = build.reshape(build.minimum(build.maximum(at, 0), time - 1), (batch, 1, whole, 1))
    moved = build.apply1(
        "take_along_axis", new, build.broadcast_to(held, (batch, shared, whole, width)), axis=2
    )
    return build.select(build.reshape(inside, (batch, 1, whole, 1)), moved, wide)


def fixed(x: Node, axis: int) -> int:
    """The size of an axis, which must be static."""
    size = x.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(f"axis {axis} of {x.type} must be known")
    return size


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(call: OperatorCall) -> Node:
    """Positions are (batch, time), or the scalar position of the first element; the caches have a
    row for each position.
    """
    x, positions = call[0], call[1]
    if call.attr("is_packed_batching", 0):
        call.fail("batches packed in one row are not supported")
    width = call.attr("rotary_embedding_dim", 0)
    cosine, sine = call[2], call[3]
    count = call.attr("num_heads", 0)
    if x.type.rank == 4:
        time, axis, wide = x.shape[2], 1, x
    else:
        hidden, time, axis = fixed(x, 2), x.shape[1], 2
        size = hidden // count if width else 2 * fixed(cosine, 1)
        wide = build.reshape(x, (x.shape[0], time, hidden // size, size))
    if positions.type.rank == 1:
        positions = build.broadcast_to(
            build.add(positions, build.iota((1, time), 1)), (x.shape[0], time)
        )
    given = {"width": width, "interleaved": bool(call.attr("interleaved", 0))}
    return build.reshape(
        rotated(
            wide, build.take(cosine, positions, 0), build.take(sine, positions, 0), axis, **given
        ),
        x.shape,
    )
