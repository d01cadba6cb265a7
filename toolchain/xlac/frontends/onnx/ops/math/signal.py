"""Signals: Fourier transforms, windows and the mel scale. Those of frames are convolutions with a
matrix computed at import.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, ShapeError, normal_axis
from xlac.ops import build
from xlac.ops.reduction import conv
from xlac.ops.transforms.complex_parts import stacked
from xlac.ops.transforms.fft import Fft
from xlac.ops.transforms.real_fft import Rfft, mirrored
from xlac_sdk.dtypes import DType

LONGEST = 1 << 24  # the most elements of a window or a mel matrix
MATRIX = 1 << 30  # the most bytes of a transform's matrix

# ---- Fourier transforms ----------------------------------------------------------------------


@operator("DFT", since=17)
def dft_17(call: OperatorCall) -> Node:
    """Operator set 17: the axis is an attribute, 1 unless given."""
    return _dft(call, call.attr("axis", 1))


@operator("DFT", since=20)
def dft_20(call: OperatorCall) -> Node:
    """Operator set 20: the axis is an input; the default is the last before that of real and
    imaginary parts.
    """
    return _dft(call, (call.ints(2) or [-2])[0])


def _dft(call: OperatorCall, axis: int) -> Node:
    """The transform along an axis of (…, 1 or 2): real numbers, or real and imaginary parts."""
    x = call[0]
    axis = normal_axis(axis, x.type.rank)
    size, width = x.shape[axis], x.shape[-1]
    if width not in (1, 2) or axis == x.type.rank - 1:
        wanted = "1 or 2, the parts of numbers, and is not transformed"
        raise ShapeError(f"the last axis of what DFT takes is {wanted}; got {width}")
    if not isinstance(size, int):
        raise ShapeError(
            f"DFT takes real or complex numbers along an axis of known size, got {x.type}"
        )
    inverse, onesided = bool(call.attr("inverse", 0)), bool(call.attr("onesided", 0))
    # one-sided inverse: from the first half of a spectrum to real numbers
    back = inverse and onesided
    length = (call.ints(1) or [2 * (size - 1) if back else size])[0]
    if length < 1:
        call.fail(f"a transform of {length} elements")
    parts = [
        _resized(build.compute(part), axis, length // 2 + 1 if back else length)
        for part in _parts(x)
    ]
    if back:
        real, imaginary = (*parts, build.like(0.0, parts[0]))[:2]
        result = build.apply1("irfft", real, imaginary, length=length, axis=axis)
        return build.cast(build.reshape(result, (*result.shape, 1)), x.type.dtype)
    if len(parts) == 1 and not inverse:
        half = Node.of(Rfft(axis), *parts)
        real, imaginary = pick(half, 0), pick(half, 1)
        if not onesided:
            real, imaginary = mirrored(real, imaginary, axis, length)
    else:
        whole = Node.of(Fft(axis, inverse), *(*parts, build.like(0.0, parts[0]))[:2])
        bins = length // 2 + 1 if onesided else length
        real, imaginary = (build.cut(pick(whole, n), axis, 0, bins) for n in (0, 1))
    return build.cast(stacked(real, imaginary, x.type.rank - 1), x.type.dtype)


def _parts(x: Node) -> list[Node]:
    """The slices of the last axis, which is removed."""
    last = x.type.rank - 1
    width = x.shape[last]
    assert isinstance(width, int)
    return [build.reshape(build.cut(x, last, n, n + 1), x.shape[:last]) for n in range(width)]


def _resized(x: Node, axis: int, size: int) -> Node:
    """x truncated or zero-padded to `size` elements of an axis."""
    have = x.shape[axis]
    assert isinstance(have, int)
    if have >= size:
        return build.cut(x, axis, 0, size)
    high = [size - have if a == axis else 0 for a in range(x.type.rank)]
    return build.pad(x, 0.0, (0,) * x.type.rank, high)


def turns(read: int, made: int, length: int) -> tuple[Array, Array]:
    """Cosines and sines (input, output) of the DFT of `length` elements. Raises ShapeError."""
    check_size((max(read, 1), max(made, 1), 4), 8, MATRIX)
    angle = np.outer(np.arange(read), np.arange(made)) % length * (2 * np.pi / length)
    return np.cos(angle), -np.sin(angle)


@operator("STFT", since=17)
def stft(call: OperatorCall) -> Node:
    """Operator set 17: (batch, length, 1 or 2) to (batch, frames, bins, 2), as a convolution with
    the DFT matrix.
    """
    x, window = call[0], call.get(2)
    (step,) = call.ints(1) or [0]
    width = x.shape[-1] if x.type.rank == 3 else 1
    if x.type.rank not in (2, 3) or width not in (1, 2) or step < 1:
        raise ShapeError(
            f"STFT takes (batch, length, 1 or 2) and a step of at least 1, got {x.type} and {step}"
        )
    whole = window.shape[0] if window is not None else x.shape[1]
    length = (call.ints(3) or [0])[0] or whole
    if not isinstance(length, int):
        call.fail(f"the length of a frame must be known, got {length}")
    taps = length if window is None else window.shape[0]
    if not isinstance(taps, int) or taps > length:
        call.fail(f"a window of {taps} elements does not fit frames of {length}")
    onesided = bool(call.attr("onesided", 1))
    bins = length // 2 + 1 if onesided else length
    cosine, sine = turns(taps, bins, length)
    # (part, width, taps, bins)
    matrix = np.stack([np.stack([cosine, -sine]), np.stack([sine, cosine])])[:, :width]
    # bins, parts alternating
    kernel = build.constant(
        matrix.transpose(3, 0, 1, 2).reshape(2 * bins, width, taps), x.type.dtype
    )
    if window is not None:
        kernel = build.mul(kernel, window)
    signal = build.transpose(build.reshape(x, (*x.shape[:2], width)), (0, 2, 1))
    unread = taps - length  # the end of each frame, which a shorter window does not cover
    op = conv.Conv(
        ("NCW", "OIW", "NCW"), (step,), (0,), (unread,), (1,), (1,), 1, 1, x.type.dtype.compute
    )
    convolved = Node.of(op, signal, kernel)
    spectrum = build.reshape(convolved, (convolved.shape[0], bins, 2, convolved.shape[2]))
    return build.cast(build.transpose(spectrum, (0, 3, 1, 2)), x.type.dtype)


# ---- windows ---------------------------------------------------------------------------------


def _register(name: str, formula: Callable[[Array], Array]) -> None:
    @operator(name, since=17)
    def window(call: OperatorCall) -> Node:
        """Operator set 17: a window of `size` elements, periodic by default."""
        size = int(call.value(0).reshape(()))
        if size < 0 or size > LONGEST:
            call.fail(f"a window of {size} elements")
        period = size if call.attr("periodic", 1) else size - 1
        at = np.arange(size) / max(period, 1)
        return build.constant(formula(2 * np.pi * at), call.dtype("output_datatype", DType.F32))


_register("HannWindow", lambda angle: np.sin(angle / 2) ** 2)
_register("HammingWindow", lambda angle: 25 / 46 - 21 / 46 * np.cos(angle))
_register("BlackmanWindow", lambda angle: 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle))


@operator("MelWeightMatrix", since=17)
def mel_weight_matrix(call: OperatorCall) -> Node:
    """Operator set 17: triangular filters over the bins of a spectrum, spaced by the mel scale."""
    bins, length, rate = (int(call.value(n).reshape(())) for n in range(3))
    low, high = (2595 * np.log10(1 + float(call.value(n).reshape(())) / 700) for n in (3, 4))
    spectrum = length // 2 + 1
    if (
        not 0 < bins <= LONGEST
        or not 0 < length <= LONGEST
        or rate < 1
        or bins * spectrum > LONGEST
    ):
        call.fail(f"{bins} mel bins of a transform of {length} elements at a rate of {rate}")
    edges = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    points = ((length + 1) * (700 * np.expm1(edges / 2595 * np.log(10))) // rate).astype(np.int64)
    at = np.arange(spectrum)[:, None]
    left, middle, right = points[:-2], points[1:-1], points[2:]
    with np.errstate(all="ignore"):
        rising, falling = (at - left) / (middle - left), (right - at) / (right - middle)
    weights = np.where((at >= left) & (at <= middle) & (left < middle), rising, 0.0)
    weights = np.where((at >= middle) & (at < right), falling, weights)
    weights = np.where((at == middle) & (left == middle), 1.0, weights)
    return build.constant(weights, call.dtype("output_datatype", DType.F32))
