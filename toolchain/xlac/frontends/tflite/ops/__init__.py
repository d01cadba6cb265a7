"""The operators of TensorFlow Lite; importing this package registers them all."""

from __future__ import annotations

from xlac.frontends.tflite.ops import (  # noqa: F401
    activation,
    arithmetic,
    control,
    convolution,
    create,
    detection,
    indexing,
    joining,
    linear,
    pooling,
    quantize,
    recurrent,
    reductions,
    resize,
    scatter,
    shape,
    slices,
    transforms,
    transposed,
)
