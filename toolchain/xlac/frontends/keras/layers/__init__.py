"""The layers of Keras, its activations and the functions of keras.ops; importing this registers
them.
"""

from __future__ import annotations

from xlac.frontends.keras.layers import (
    activations,
    attention,
    convolution,
    core,
    functions,
    images,
    merging,
    normalization,
    pointwise_functions,
    pooling,
    recurrent,
    regularization,
    reshaping,
)

__all__ = [
    "activations", "attention", "convolution", "core", "functions", "images", "merging",
    "normalization",
    "pointwise_functions", "pooling", "recurrent", "regularization", "reshaping",
]  # fmt: skip
