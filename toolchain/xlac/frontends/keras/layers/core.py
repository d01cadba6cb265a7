"""Dense layers, embeddings, and layers that wrap others."""

from __future__ import annotations

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.masks import GIVEN_MASKS, column
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@layer("Dense")
def dense(call: LayerCall) -> Node:
    """x kernel + bias over the last axis."""
    x, units = call.floats(call.x), call.integer("units")
    bias = call.flag("use_bias", True)
    if call.get("lora_rank") is not None or call.get("quantization_mode") is not None:
        call.unsupported("low-rank or quantized kernels are not supported")
    if not x.shape:
        call.fail(f"it needs a last axis, got {x.type}")
    learned = [call.weight("kernel", (x.shape[-1], units), np.transpose)]
    learned += [call.weight("bias", (units,))] if bias else []
    return call.activated(build.apply1("linear", x, *learned, units=units, bias=bias))


@layer("EinsumDense")
def einsum_dense(call: LayerCall) -> Node:
    """x and a kernel by Einstein's summation."""
    equation = call.get("equation")
    if not isinstance(equation, str) or equation.count(",") != 1 or "->" not in equation:
        call.fail(f"equation {equation!r} does not have the form 'a,b->c'")
    letters = equation.partition(",")[2].partition("->")[0]
    if call.get("lora_rank") is not None or call.get("quantization_mode") is not None:
        call.unsupported("low-rank or quantized kernels are not supported")
    kernel = call.weight("kernel", [None] * len(letters.strip()))
    y = build.apply1("einsum", call.floats(call.x), kernel, equation=equation.replace(" ", ""))
    axes = call.get("bias_axes")
    if axes:
        result = equation.partition("->")[2].replace(".", "").strip()
        if not isinstance(axes, str) or not set(axes) <= set(result):
            call.fail(f"bias_axes {axes!r} are none of '{result}'")
        first = min(result.index(letter) for letter in axes)
        y = build.add(y, call.weight("bias", [None] * (len(result) - first)))
    return call.activated(y)


@layer("Embedding")
def embedding(call: LayerCall) -> Node:
    """Rows of a table, one for each index."""
    count, dim = call.integer("input_dim"), call.integer("output_dim")
    if call.get("lora_rank") is not None or call.get("quantization_mode") is not None:
        call.unsupported("low-rank or quantized tables are not supported")
    table = call.weight("embeddings", (count, dim))
    x = call.x
    if x.type.dtype.is_float:
        x = build.cast(x, DType.I32)
    y = build.apply1("embedding", x, table, count=count, dim=dim, dtype=table.type.dtype)
    if call.flag("mask_zero"):
        call.importer.masks.set(y, build.compare(call.x, "ne", 0))
    return y


@layer("Masking")
def masking(call: LayerCall) -> Node:
    """x with zeros at the steps whose features all have one value; its mask leaves them out."""
    x = call.floats(call.x)
    if x.type.rank < 2:
        call.fail(f"it takes at least two axes, got {x.type}")
    differs = build.compare(x, "ne", build.like(call.number("mask_value", 0.0), x))
    mask = build.reduce(differs, "or", x.type.rank - 1)
    y = build.select(column(mask, x.type.rank), x, build.like(0.0, x))
    call.importer.masks.set(y, mask)
    return y


@layer("Identity", "InputLayer")
def identity(call: LayerCall) -> Node:
    """x itself."""
    return call.x


@layer("TimeDistributed")
def time_distributed(call: LayerCall) -> Node:
    """A layer applied to every step: (batch, time, …)."""
    x, inner = call.x, call.inner()
    if x.type.rank < 3:
        call.fail(f"it takes at least three axes, got {x.type}")
    if call.mask is not None and (inner.model or inner.kind in GIVEN_MASKS):
        call.unsupported(f"{inner.kind} in it, called with a mask, is not supported")
    joined = build.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    results = call.within(inner, "layer", [joined])
    if len(results) != 1:
        call.unsupported("layers of several results are not supported in it")
    (y,) = results
    return build.reshape(y, (*x.shape[:2], *y.shape[1:]))


@layer("SpectralNormalization")
def spectral_normalization(call: LayerCall) -> tuple[Node, ...]:
    """The layer inside, whose kernel is kept normalized: only training changes it."""
    return call.within(call.inner(), "layer", call.inputs)
