"""Scaled dot product attention in all of PyTorch's forms, and the gradient of the CPU's form."""

from __future__ import annotations

import math
from typing import Any

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def scores_of(q: Node, k: Node, mask: Node | None, causal: bool, scale: float | None) -> Node:
    """q kᵀ * scale + mask in the compute type, (…, queries, keys); -inf where a query may not
    attend.
    """
    dtype = q.type.dtype.compute
    width = q.shape[-1]
    if scale is None:
        if not isinstance(width, int):
            raise NotExpressible("attention over heads of unknown width")
        scale = 1 / math.sqrt(width) if width else 1.0
    scores = build.mul(stacked(q, k, (q.type.rank - 1, k.type.rank - 1), dtype), float(scale))
    if causal:
        seen = build.compare(
            build.iota(scores.shape[-2:], 0), "ge", build.iota(scores.shape[-2:], 1)
        )
        scores = build.select(build.broadcast_to(seen, scores.shape), scores, -math.inf)
    if mask is None:
        return scores
    if mask.type.dtype is DType.BOOL:
        return build.select(build.broadcast_to(mask, scores.shape), scores, -math.inf)
    return build.add(scores, build.broadcast_to(build.cast(mask, dtype), scores.shape))


def stacked(x: Node, y: Node, contract: tuple[int, int], dtype: DType) -> Node:
    """A batched contraction of one axis of each operand; all axes before the last two are batch
    axes.
    """
    batch = tuple(range(x.type.rank - 2))
    return build.dot(x, y, ((contract[0],), (contract[1],)), (batch, batch), dtype)


def weights_of(scores: Node) -> tuple[Node, Node]:
    """Softmax over the last axis, and logsumexp. A query with no allowed key gets weights of 0."""
    axis = scores.type.rank - 1
    top = build.reduce(scores, "max", axis, True)
    top = build.select(build.compare(top, "eq", -math.inf), 0.0, top)
    raised = build.exp(build.sub(scores, top))
    total = build.reduce(raised, "add", axis, True)
    none = build.compare(total, "eq", 0.0)
    weights = build.div(raised, build.select(none, 1.0, total))
    return weights, build.add(build.log(total), top)


def shared(k: Node, heads: Dim) -> Node:
    """Keys or values repeated for the query heads that share them."""
    *outer, count, time, width = k.shape
    if count == heads:
        return k
    if not isinstance(count, int) or not isinstance(heads, int) or not count or heads % count:
        raise NotExpressible(f"{heads} query heads that share {count}")
    apart = build.reshape(k, (*outer, count, 1, time, width))
    spread = build.broadcast_to(apart, (*outer, count, heads // count, time, width))
    return build.reshape(spread, (*outer, heads, time, width))


def attend(
    call: AtenCall,
    q: Node,
    k: Node,
    v: Node,
    mask: Node | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> tuple[Node, Node]:
    """The attention output, and the logsumexp of each query's scores."""
    weights, total = weights_of(scores_of(q, k, mask, causal, scale))
    if dropout:
        kept = build.compare(call.random.uniform(weights.shape, DType.F32), "ge", dropout)
        weights = build.select(kept, build.mul(weights, 1 / (1 - dropout)), build.like(0, weights))
    rank = weights.type.rank
    attended = stacked(
        build.cast(weights, q.type.dtype), v, (rank - 1, rank - 2), q.type.dtype.compute
    )
    return build.cast(attended, q.type.dtype), build.reshape(total, total.shape[:-1])


def spread_batch(q: Node, *others: Node) -> tuple[Node, ...]:
    """Keys and values broadcast over the batch axes of all operands."""
    outer = build.broadcast_shapes([x.shape[:-3] for x in (q, *others)])
    return tuple(build.broadcast_to(x, (*outer, *x.shape[-3:])) for x in (q, *others))


@aten("scaled_dot_product_attention")
def attention(
    call: AtenCall,
    q: Node,
    k: Node,
    v: Node,
    attn_mask: Node | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Node:
    """softmax(scale q kᵀ + mask) v over (…, heads, tokens, features). With `enable_gqa` heads of k
    and v are shared by several of q.
    """
    if q.type.rank > 3 and enable_gqa:
        k, v = (shared(x, q.shape[-3]) for x in (k, v))
    if q.type.rank > 3:
        q, k, v = spread_batch(q, k, v)
    attended, _ = attend(call, q, k, v, attn_mask, dropout_p, is_causal, scale)
    return build.broadcast_to(attended, call.shape)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    call: AtenCall,
    q: Node,
    k: Node,
    v: Node,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Node | None = None,
    scale: float | None = None,
    **_: Any,
) -> tuple[Node, Node]:
    """Attention, and the logsumexp of each row, which the backward operation reads."""
    attended, total = attend(
        call,
        q,
        shared(k, q.shape[1]),
        shared(v, q.shape[1]),
        attn_mask,
        dropout_p,
        is_causal,
        scale,
    )
    stated = call.stated(1)
    return attended, build.cast(build.reshape(total, stated.shape), stated.dtype)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    call: AtenCall,
    grad: Node,
    q: Node,
    k: Node,
    v: Node,
    out: Node,
    logsumexp: Node,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Node | None = None,
    scale: float | None = None,
) -> tuple[Node, ...]:
    """dS = P (dP - sum(grad * out)), where P are the attention weights and dP = grad vᵀ."""
    dtype = q.type.dtype.compute
    keys, values = shared(k, q.shape[1]), shared(v, q.shape[1])
    g, keys, values, queries = (build.cast(x, dtype) for x in (grad, keys, values, q))
    width = q.shape[-1]
    assert isinstance(width, int)
    factor = 1 / math.sqrt(width) if scale is None else float(scale)
    scores = scores_of(queries, keys, attn_mask, is_causal, factor)
    total = build.reshape(build.cast(logsumexp, dtype), (*scores.shape[:-1], 1))
    weights = build.exp(build.sub(scores, total))
    weights = build.select(build.compare(scores, "eq", -math.inf), 0.0, weights)
    through = stacked(g, values, (3, 3), dtype)
    own = build.reduce(build.mul(g, build.cast(out, dtype)), "add", 3, True)
    slope = build.mul(build.mul(weights, build.sub(through, own)), factor)
    gradients = (
        stacked(slope, keys, (3, 2), dtype),
        stacked(slope, queries, (2, 2), dtype),
        stacked(weights, g, (2, 2), dtype),
    )
    fitted = zip(gradients, (q, k, v), strict=True)
    return tuple(build.cast(_gathered(node, x), x.type.dtype) for node, x in fitted)


def _gathered(grad: Node, x: Node) -> Node:
    """The gradients of key or value heads: the sum over the query heads that share them."""
    batch, heads, time, width = grad.shape
    if heads == x.shape[1]:
        return grad
    assert isinstance(heads, int) and isinstance(x.shape[1], int)
    apart = build.reshape(grad, (batch, x.shape[1], heads // x.shape[1], time, width))
    return build.reduce(apart, "add", 2)
