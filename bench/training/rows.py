"""The rows of gradient kernels."""

from __future__ import annotations

from collections.abc import Sequence

from row import Row
from row_rows import attention, batch_norm, cross_entropy, embedding, gelu, layer_norm, softmax
from window_rows import conv, linear, pools, product


def rows() -> Sequence[Row]:
    """All rows."""
    rows: list[Row] = []
    for batch in (1, 8):
        rows += conv("conv3x3_64_56", batch, 64, 64, 56, 3)
        rows += conv("conv3x3_256_14", batch, 256, 256, 14, 3)
        rows += conv("conv1x1_256_64_56", batch, 256, 64, 56, 1)
        rows += conv("conv1x1_1024_256_14", batch, 1024, 256, 14, 1)
        rows += conv("conv7x7s2_3_64_224", batch, 3, 64, 224, 7, 2)
        rows += conv("conv3x3s2_128_56", batch, 128, 128, 56, 3, 2)
        rows += conv("conv1x1s2_256_512_56", batch, 256, 512, 56, 1, 2)
        rows += conv("depthwise3x3_96_56", batch, 96, 96, 56, 3, groups=96)
        rows += conv("depthwise3x3s2_96_112", batch, 96, 96, 112, 3, 2, groups=96)
        rows += conv("grouped3x3_128_28", batch, 128, 128, 28, 3, groups=32)
        rows += conv("dilated3x3_64_28", batch, 64, 64, 28, 3, dilation=2)
    rows += [
        product("nn", 256, 256, 1024),
        product("nn", 256, 1024, 256),
        product("nn", 1024, 256, 256),
        product("nn", 64, 64, 64),
        product("tn", 512, 128, 784),
        product("tn", 784, 128, 512),
        product("tn", 768, 1024, 768),
        product("tn", 64, 16384, 64),
        product("nt", 256, 1024, 256),
        product("nt", 128, 512, 784),
        product("nt", 1024, 768, 768),
        linear(128, 784, 512),
    ]
    rows += [*pools(1, 64, 112), *pools(8, 64, 112)]
    rows += [batch_norm(8, 64, 56), batch_norm(8, 256, 14), batch_norm(32, 64, 32)]
    rows += [layer_norm(1024, 768), softmax(1536, 128), gelu(1024, 3072)]
    rows += [cross_entropy(32, 10), cross_entropy(1024, 1000), cross_entropy(1024, 32000)]
    rows += [embedding(1024, 32000, 256), embedding(16384, 1000, 64)]
    rows += [attention(4, 4, 256, 64), attention(1, 12, 512, 64)]
    return rows
