"""The rows of gradient kernels."""

from __future__ import annotations

from collections.abc import Sequence

from row import Row
from row_rows import attention, batch_norm, cross_entropy, embedding, gelu, layer_norm, softmax
from window_rows import conv, linear, pools, product


def rows() -> Sequence[Row]:
    """All rows."""
    found: list[Row] = []
    for batch in (1, 8):
        found += conv("conv3x3_64_56", batch, 64, 64, 56, 3)
        found += conv("conv3x3_256_14", batch, 256, 256, 14, 3)
        found += conv("conv1x1_256_64_56", batch, 256, 64, 56, 1)
        found += conv("conv1x1_1024_256_14", batch, 1024, 256, 14, 1)
        found += conv("conv7x7s2_3_64_224", batch, 3, 64, 224, 7, 2)
        found += conv("conv3x3s2_128_56", batch, 128, 128, 56, 3, 2)
        found += conv("conv1x1s2_256_512_56", batch, 256, 512, 56, 1, 2)
        found += conv("depthwise3x3_96_56", batch, 96, 96, 56, 3, groups=96)
        found += conv("depthwise3x3s2_96_112", batch, 96, 96, 112, 3, 2, groups=96)
        found += conv("grouped3x3_128_28", batch, 128, 128, 28, 3, groups=32)
        found += conv("dilated3x3_64_28", batch, 64, 64, 28, 3, dilation=2)
    found += [
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
    found += [*pools(1, 64, 112), *pools(8, 64, 112)]
    found += [batch_norm(8, 64, 56), batch_norm(8, 256, 14), batch_norm(32, 64, 32)]
    found += [layer_norm(1024, 768), softmax(1536, 128), gelu(1024, 3072)]
    found += [cross_entropy(32, 10), cross_entropy(1024, 1000), cross_entropy(1024, 32000)]
    found += [embedding(1024, 32000, 256), embedding(16384, 1000, 64)]
    found += [attention(4, 4, 256, 64), attention(1, 12, 512, 64)]
    return found
