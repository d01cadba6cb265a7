"""Normalizations of com.microsoft (version 1): with a residual sum, of embeddings, with channels
last.
"""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.nn.fused import channels_first, channels_last
from xlac.frontends.onnx.ops.nn.normalization import measured, rms
from xlac.frontends.onnx.registry import MICROSOFT, operator
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(call: OperatorCall) -> tuple[Node, ...]:
    """y, and 1 / root mean square; ONNX Runtime has it in ONNX's own domain too."""
    x, epsilon, axis = call[0], call.attr("epsilon", 1e-5), call.attr("axis", -1)
    y = rms(x, call[1], axis, epsilon)
    return (y, _inverse_rms(x, axis, epsilon)) if call.wants(1) else (y,)


def _inverse_rms(x: Node, axis: int, epsilon: float) -> Node:
    wide = build.compute(x)
    axes = tuple(range(axis % x.type.rank, x.type.rank))
    square = build.apply1("mean", build.mul(wide, wide), axis=axes, keepdims=True)
    return build.cast(build.apply1("rsqrt", build.add(square, epsilon)), DType.F32)


def _summed(call: OperatorCall, bias: Node | None) -> Node:
    """The input plus the skip connection, which may lack the batch axis, plus a bias."""
    total = build.add(call[0], call[1])
    return total if bias is None else build.add(total, bias)


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(call: OperatorCall) -> tuple[Node, ...]:
    """y, mean, 1 / standard deviation, and the sum."""
    total = _summed(call, call.get(4))
    gamma, beta, epsilon = call[2], call.get(3), call.attr("epsilon", 1e-12)
    wide = build.compute(total)
    mean, variance = measured(wide, [total.type.rank - 1])
    inverse = build.apply1("rsqrt", build.add(variance, epsilon))
    learned = [gamma] if beta is None else [gamma, beta]
    y = build.apply1("layer_norm", total, *learned, epsilon=epsilon, bias=beta is not None)
    return y, build.cast(mean, DType.F32), build.cast(inverse, DType.F32), total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(call: OperatorCall) -> tuple[Node, ...]:
    """y, an unused output, 1 / root mean square, and the sum."""
    total, epsilon = _summed(call, call.get(3)), call.attr("epsilon", 1e-12)
    inverse = _inverse_rms(total, -1, epsilon)
    return rms(total, call[2], -1, epsilon), inverse, inverse, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(call: OperatorCall) -> tuple[Node, ...]:
    """The normalized sum of word, position and segment embeddings; the number of unmasked words of
    each example; and the sum.
    """
    words, segments, mask, positions = call[0], call.get(1), call.get(7), call.get(8)
    total = build.take(call[2], words, 0)
    if positions is None:
        total = build.add(total, build.cut(call[3], 0, 0, words.shape[1]))
    else:
        total = build.add(total, build.take(call[3], positions, 0))
    if segments is not None:
        total = build.add(total, build.take(call[4], segments, 0))
    y = build.apply1("layer_norm", total, call[5], call[6], epsilon=call.attr("epsilon", 1e-12))
    kept = (
        build.full(0, (words.shape[0],), DType.I32)
        if mask is None
        else build.reduce(build.cast(mask, DType.I32), "add", 1)
    )
    return y, kept, total


@operator("GroupNorm", domain=MICROSOFT)
def group_norm(call: OperatorCall) -> Node:
    """Group normalization, with channels last if `channels_last`, and silu if asked."""
    return _group_norm(call, call[0])


@operator("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(call: OperatorCall) -> tuple[Node, Node]:
    """Group normalization of x plus the skip connection, (batch, channels) or x's shape, plus a
    bias; and that sum.
    """
    x, skip, bias = call[0], call[3], call.get(4)
    if skip.type.rank == 2:
        skip = build.reshape(skip, (skip.shape[0], *[1] * (x.type.rank - 2), skip.shape[1]))
    total = build.add(x, skip)
    if bias is not None:
        total = build.add(total, bias)
    return _group_norm(call, total), total


def _group_norm(call: OperatorCall, x: Node) -> Node:
    """Group normalization of (batch, …, channels), or channels first; `activation` 1 is silu."""
    last = call.attr("channels_last", 1)
    first = build.compute(channels_first(x) if last else x)
    gamma, beta = (build.cast(call[n], first.type.dtype) for n in (1, 2))
    y = build.apply1(
        "group_norm",
        first,
        gamma,
        beta,
        groups=call.attr("groups"),
        epsilon=call.attr("epsilon", 1e-5),
    )
    if call.attr("activation"):
        y = build.apply1("silu", y)
    y = build.cast(y, x.type.dtype)
    return channels_last(y) if last else y
