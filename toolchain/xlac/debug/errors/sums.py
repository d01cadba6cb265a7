"""Errors of sums and of sums of products: those of the terms, and those of adding them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from xlac.debug.errors.approximation import GREATEST, LEAST_EXPONENT, Approximation, exact
from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array, Op, attributes
from xlac.ops.error_bounds import (
    FAST_WINOGRAD,
    LEAST_WEIGHT,
    SUM_OF,
    SUMS,
    WINOGRAD,
    WINOGRAD_CHANNELS,
    WINOGRAD_GRADIENT,
    unit_roundoff,
)
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

Inputs = Sequence[Approximation]


@dataclass(frozen=True, slots=True)
class Promise:
    """The conditions that decide which bounds hold: the device ("cpu" or "gpu"), tensor cores, and
    `precision: fast`.
    """

    device: str = "cpu"
    tensor_cores: bool = False
    fast: bool = False

    def roundings(self, mnemonic: str) -> float:
        """The error bound of an operation's sum, as a multiple of u times the sum of the terms'
        magnitudes.
        """
        return SUMS[SUM_OF[mnemonic]].of(self.device, self.tensor_cores)


def magnitudes(inputs: Inputs) -> list[Array]:
    """The largest magnitudes of operands, in float64; 0 where that is not finite."""
    sizes = []
    for x in inputs:
        size = np.abs(x.value.astype(np.float64)) + x.bound
        sizes.append(np.where(np.isfinite(size), size, 0.0))
    return sizes


def underflow(node: Node) -> float:
    """The absolute error of a sum's products by underflow."""
    return _terms(node) * 2.0 ** LEAST_EXPONENT[node.type.dtype.compute]


def overflowing(error: Array, total: Array, dtype: DType) -> Array:
    """The error of a sum with terms of total magnitude `total`: NaN (any result) where some order
    of adding them overflows.
    """
    return np.where(total > GREATEST[dtype.compute], np.nan, error)


def factor(node: Node, promise: Promise, terms: Callable[[], float]) -> float:
    """The error bound of a sum, as a multiple of the terms' magnitudes.

    With `fast` the order of sums is free; in f64 the reference has rounding errors too, one per
    term.
    """
    dtype = node.type.dtype
    roundings = promise.roundings(node.op.mnemonic)
    if promise.fast:
        roundings = max(roundings, terms())
    if dtype is DType.F64:
        roundings += terms()
    return roundings * unit_roundoff(dtype)


def added(node: Node, inputs: Inputs, promise: Promise, at: Sequence[int]) -> Array | None:
    """The error of a sum over elements of the operands `at`; other operands are indices."""
    op = node.op

    def applied(arrays: Sequence[Array]) -> Array:
        given = [i.value for i in inputs]
        for place, array in zip(at, arrays, strict=True):
            given[place] = array
        with np.errstate(all="ignore"):
            return np.asarray(op.evaluate(*given), np.float64)

    summed = [inputs[n] for n in at]

    def terms() -> float:
        return float(applied([np.ones(i.value.shape) for i in summed]).max(initial=0.0))

    if not node.type.dtype.is_float:
        return None if exact(summed) else applied([i.bound for i in summed])
    total = applied(magnitudes(summed))
    error = factor(node, promise, terms) * total
    if not exact(summed):
        error = error + applied([i.bound for i in summed])
    return overflowing(error, total, node.type.dtype)


def multiplied(node: Node, inputs: Inputs, promise: Promise) -> Array | None:
    """The error of a contraction or a convolution."""
    a, b = inputs
    if not node.type.dtype.is_float:
        return None if exact(inputs) else np.full(static(node.type.shape), np.inf)
    sizes = magnitudes(inputs)
    op = _in_float64(node.op)

    def applied(left: Array, right: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(op.evaluate(left, right), np.float64)

    total = applied(*sizes)
    error = factor(node, promise, lambda: _terms(node)) * total + underflow(node)
    if a.error is not None:
        error = error + applied(a.error, sizes[1])
    if b.error is not None:
        error = error + applied(magnitudes([Approximation(a.value)])[0], b.error)
    if isinstance(node.op, Conv) and error.size:
        if _fewer_products(node.op, node):
            error = np.maximum(error, _winograd(node.op, sizes, promise))
        if _is_gradient_by_fewer_products(node.op, node):
            roundings = factor(node, promise, lambda: _terms(node))
            error = np.maximum(error, _winograd_gradient(node.op, sizes, roundings))
        error = np.where(_meets_inserted(node.op, a.value, b.value), np.nan, error)
    return overflowing(error, total, node.type.dtype)


def _meets_inserted(op: Conv, x: Array, kernel: Array) -> Array:
    """Where an infinity or a NaN of the kernel meets a zero that the convolution inserts, as
    padding or between pixels: docs/SPEC.md leaves open whether that is a term.
    """
    wild = (~np.isfinite(kernel.astype(np.float64))).astype(np.float64)
    met = np.asarray(_in_float64(op).evaluate(np.ones(x.shape), wild))
    axes = tuple(n for n, letter in enumerate(op.layout[1]) if letter != "O")
    along = [1] * met.ndim
    along[op.layout[2].index("C")] = -1
    inserted: Array = met < wild.sum(axes).reshape(along)
    return inserted


def _in_float64(op: Op) -> Op:
    wanted = attributes(op).get("out_dtype")
    return op if wanted is None else replace(op, out_dtype=None)  # type: ignore[call-arg]


def _terms(node: Node) -> float:
    """The most products that each result adds."""
    lhs, rhs = (static(i.type.shape) for i in node.inputs)
    if isinstance(node.op, Conv):
        sizes = dict(zip(node.op.layout[1], rhs, strict=True))
        return float(prod(size for axis, size in sizes.items() if axis != "O"))
    return float(prod(lhs[axis] for axis in attributes(node.op)["contract_lhs"]))


# ---- Winograd convolutions -----------------------------------------------------------------------


def _fewer_products(op: Conv, node: Node) -> bool:
    """Whether docs/SPEC.md permits Winograd's algorithm: 3 by 3, stride 1, f32."""
    taps = dict(zip(op.layout[1], node.inputs[1].type.shape, strict=True))
    return all(taps[letter] == 3 for letter in op.spatial) and _is_plain(op, node)


def _is_gradient_by_fewer_products(op: Conv, node: Node) -> bool:
    """Whether docs/SPEC.md permits Winograd's algorithm for a gradient for weights: a result of 3
    by 3 by a larger kernel, stride 1, f32.
    """
    taps = dict(zip(op.layout[1], static(node.inputs[1].type.shape), strict=True))
    places = dict(zip(op.layout[2], node.type.shape, strict=True))
    alike = all(places[letter] == 3 and taps[letter] > 3 for letter in op.spatial)
    return alike and _is_plain(op, node)


def _is_plain(op: Conv, node: Node) -> bool:
    """Whether a convolution has two spatial axes, no strides, dilations or groups, and is in
    f32.
    """
    ones = {*op.strides, *op.lhs_dilation, *op.rhs_dilation, op.feature_groups, op.batch_groups}
    return len(op.spatial) == 2 and ones == {1} and node.type.dtype is DType.F32


def _winograd_gradient(op: Conv, sizes: Sequence[Array], roundings: float) -> Array:
    """16 (n u + 12 u) M W, with M the largest pixel of an input channel, which is the axis N of the
    gradient's convolution, and W the cotangents of an output channel.
    """
    x = sizes[0].transpose([op.layout[0].index(k) for k in "NC" + op.spatial])
    cotangents = sizes[1].transpose([op.layout[1].index(k) for k in "OI" + op.spatial])
    largest = x.max(axis=(1, 2, 3), initial=0.0)
    weights = np.maximum(cotangents, LEAST_WEIGHT).sum(axis=(1, 2, 3))
    scale = WINOGRAD_GRADIENT * (roundings + WINOGRAD_CHANNELS * unit_roundoff(DType.F32))
    error = scale * largest[:, None, None, None] * weights[None, :, None, None]
    wide = np.broadcast_to(error, (*error.shape[:2], 3, 3))
    order = "NC" + op.spatial
    laid: Array = wide.transpose([order.index(k) for k in op.layout[2]])
    return laid


def _winograd(op: Conv, sizes: Sequence[Array], promise: Promise) -> Array:
    """128 (C + 12) M W u, with M the largest pixel under the window over all channels."""
    x = sizes[0].transpose([op.layout[0].index(k) for k in "NC" + op.spatial])
    kernel = sizes[1].transpose([op.layout[1].index(k) for k in "OI" + op.spatial])
    channels = x.shape[1]
    wide = 2 if promise.fast else 0  # a tile's pixels extend beyond the window
    pads = [(low + wide, high + wide) for low, high in zip(op.low, op.high, strict=True)]
    edges = [(max(a, 0), max(b, 0)) for a, b in pads]
    pixels = np.pad(x.max(axis=1, initial=0.0), [(0, 0), *edges])
    cut = [
        slice(max(-a, 0), size - max(-b, 0))
        for (a, b), size in zip(pads, pixels.shape[1:], strict=True)
    ]
    pixels = pixels[:, cut[0], cut[1]]
    window = (3 + 2 * wide,) * 2
    largest = np.lib.stride_tricks.sliding_window_view(pixels, window, (1, 2)).max((-2, -1))
    weights = np.maximum(kernel, LEAST_WEIGHT).sum(axis=(1, 2, 3))
    scale = WINOGRAD * (channels + WINOGRAD_CHANNELS) * unit_roundoff(DType.F32)
    if promise.fast:
        scale = max(scale, FAST_WINOGRAD)
    error = scale * largest[:, None] * weights[None, :, None, None]
    order = "NC" + op.spatial
    laid: Array = error.transpose([order.index(k) for k in op.layout[2]])
    return laid
