"""The layers of Keras, its activations and the functions of keras.ops; importing this registers
them.
"""

from __future__ import annotations

from xlac.frontends.keras.layers import (
    activations,
    attention,
    categories,
    convolution,
    core,
    functions,
    histograms,
    images,
    merging,
    normalization,
    ordering_functions,
    pointwise_functions,
    pooling,
    recurrent,
    regularization,
    reshaping,
    spectrograms,
)

__all__ = [
    "activations", "attention", "categories", "convolution", "core", "functions", "histograms",
    "images", "merging", "normalization", "ordering_functions", "pointwise_functions", "pooling",
    "recurrent", "regularization", "reshaping", "spectrograms",
]  # fmt: skip
