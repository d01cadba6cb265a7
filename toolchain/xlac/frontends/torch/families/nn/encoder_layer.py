"""A Transformer encoder layer, which PyTorch runs as one operation in inference."""

from __future__ import annotations

import math

from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

OF_SCORES, OF_KEYS = 0, 1  # kinds of masks; a third kind has all axes


@aten("_transformer_encoder_layer_fwd")
def encoder_layer(
    call: AtenCall,
    src: Node,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Node,
    qkv_bias: Node,
    proj_weight: Node,
    proj_bias: Node,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Node,
    norm_bias_1: Node,
    norm_weight_2: Node,
    norm_bias_2: Node,
    ffn_weight_1: Node,
    ffn_bias_1: Node,
    ffn_weight_2: Node,
    ffn_bias_2: Node,
    mask: Node | None = None,
    mask_type: int | None = None,
) -> Node:
    """Self-attention and two linear layers, each with a residual connection and a normalization,
    before it if `norm_first`, else after it. `src` has (batch, length, channels).
    """

    def normed(x: Node, scale: Node, shift: Node) -> Node:
        return build.apply1("layer_norm", x, scale, shift, axis=-1, epsilon=eps)

    def attended(x: Node) -> Node:
        qkv = linear(x, qkv_weight, qkv_bias)
        heads = attention(qkv, num_heads, scores_mask(src, mask, mask_type))
        return linear(heads, proj_weight, proj_bias)

    def forward(x: Node) -> Node:
        inner = linear(x, ffn_weight_1, ffn_bias_1)
        inner = build.apply1("gelu" if use_gelu else "relu", inner)
        return linear(inner, ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = build.add(src, attended(normed(src, *first)))
        return build.add(x, forward(normed(x, *second)))
    x = normed(build.add(src, attended(src)), *first)
    return normed(build.add(x, forward(x)), *second)


def linear(x: Node, weight: Node, bias: Node) -> Node:
    """x times the transpose of the weight, plus the bias."""
    return build.add(build.dot(x, weight, ((x.type.rank - 1,), (1,))), bias)


def scores_mask(src: Node, mask: Node | None, kind: int | None) -> Node | None:
    """Which scores (batch, heads, queries, keys) are masked out, as a bool that broadcasts."""
    if mask is None:
        return None
    batch, length = src.shape[:2]
    shapes: dict[int | None, tuple[Dim, ...]] = {
        OF_SCORES: (1, 1, length, length),
        OF_KEYS: (batch, 1, 1, length),
    }
    return build.reshape(build.cast(mask, DType.BOOL), shapes.get(kind, mask.shape))


def attention(qkv: Node, heads: int, mask: Node | None) -> Node:
    """Attention of packed projections (batch, length, 3 channels) with concatenated heads."""
    batch, length, width = qkv.shape
    assert isinstance(width, int)
    size = width // 3 // heads
    parts = build.transpose(build.reshape(qkv, (batch, length, 3, heads, size)), (2, 0, 3, 1, 4))
    q, k, v = (build.reshape(build.cut(parts, 0, n, n + 1), parts.shape[1:]) for n in range(3))
    scores = build.dot(build.mul(q, 1 / math.sqrt(size)), k, ((3,), (3,)), ((0, 1), (0, 1)))
    if mask is not None:
        scores = build.select(build.broadcast_to(mask, scores.shape), float("-inf"), scores)
    weighted = build.dot(
        build.apply1("softmax", scores, axis=-1), v, ((3,), (2,)), ((0, 1), (0, 1))
    )
    return build.reshape(build.transpose(weighted, (0, 2, 1, 3)), (batch, length, heads * size))
