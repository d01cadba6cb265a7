"""Layers that have an effect in training alone."""

from __future__ import annotations

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build


@layer("Dropout")
def dropout(call: LayerCall) -> Node:
    """x itself; while a model learns, parts of it are 0 by chance."""
    if call.get("noise_shape") is not None or not call.x.type.dtype.is_float:
        return call.x
    return build.apply1("dropout", call.x, p=call.number("rate"))


@layer(
    "ActivityRegularization",
    "AlphaDropout",
    "GaussianDropout",
    "GaussianNoise",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
)
def unchanged(call: LayerCall) -> Node:
    """x itself."""
    return call.x


@layer("StochasticDepth")
def stochastic_depth(call: LayerCall) -> Node:
    """x itself: of ConvNeXt in keras.applications."""
    return call.x
