"""Layers that turn sound into spectra."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.layers.convolution import filters_first
from xlac.frontends.keras.padding import same
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.checks import check_table
from xlac_sdk.dtypes import DType

EPSILON = 1e-7  # Keras's
SPECTRA = ("log", "magnitude", "psd", "real", "imag", "angle", "stft")


@layer("STFTSpectrogram")
def stft_spectrogram(call: LayerCall) -> Node:
    """The Fourier transform of windows of sound, by two kernels that may have been trained."""
    x, mode = call.x, call.choice("mode", SPECTRA, "log")
    if x.type.rank != 3 or not x.type.dtype.is_float:
        call.fail(f"x is three axes of floats, got {x.type}")
    if not call.channels_last:
        x = build.transpose(x, (0, 2, 1))
    batch, time, channels = x.shape
    length = call.integer("frame_length", 256)
    step = call.integer("frame_step", max(length // 2, 1))
    points = call.integer("fft_length", 1 << (length - 1).bit_length(), least=length)
    bins = points // 2 + 1
    columns = build.reshape(build.transpose(x, (0, 2, 1)), (batch * channels, time, 1))
    parts: list[Node] = []
    for name, other in (("real", "imag"), ("imag", "real")):
        if mode != other:
            kernel = call.weight(f"{name}_kernel", (length, 1, bins), filters_first)
            parts.append(_framed(call, columns, kernel, step))
    y = _spectrum(parts, mode)  # batch and channels, time, frequencies
    y = build.reshape(y, (batch, channels, *y.shape[1:]))
    if call.flag("expand_dims"):
        return build.transpose(y, (0, 2, 3, 1)) if call.channels_last else y
    y = build.transpose(y, (0, 1, 3, 2))  # batch, channels, frequencies, time
    y = build.reshape(y, (batch, channels * y.shape[2], y.shape[3]))
    return build.transpose(y, (0, 2, 1)) if call.channels_last else y


def _framed(call: LayerCall, x: Node, kernel: Node, step: int) -> Node:
    """Windows of x times the filters of a kernel."""
    length, bins = kernel.shape[2], kernel.shape[0]
    assert isinstance(length, int)
    mode = call.choice("padding", ("valid", "same"), "valid")
    pads = same(x.shape[1:2], [length], [step]) if mode == "same" else [(0, 0)]
    return build.apply1(
        "conv1d",
        x,
        build.cast(kernel, x.type.dtype),
        filters=bins,
        kernel=(length,),
        stride=(step,),
        pad=pads,
        bias=False,
        channels_last=True,
    )


def _spectrum(parts: list[Node], mode: str) -> Node:
    """What a mode makes of the real and the imaginary part, or of one of them."""
    if mode in ("real", "imag"):
        return parts[0]
    real, imaginary = parts
    if mode == "angle":
        return build.apply1("atan2", imaginary, real)
    if mode == "stft":
        return build.concat([real, imaginary], 2)
    power = build.add(build.mul(real, real), build.mul(imaginary, imaginary))
    if mode == "psd":  # twice that of all but the first and last frequency
        inner = build.cut(power, 2, 1, power.shape[2] - 1)
        return build.add(power, build.pad(inner, 0.0, [0, 0, 1], [0, 0, 1]))
    magnitude = build.sqrt(build.maximum(power, EPSILON))
    return magnitude if mode == "magnitude" else build.log(build.maximum(magnitude, EPSILON))


@layer("MelSpectrogram")
def mel_spectrogram(call: LayerCall) -> Node:
    """The powers of sound at frequencies as the ear hears them, in decibels if wanted:
    (…, time) as (…, bins, windows).
    """
    wide = call.dtype if call.dtype is DType.F64 else DType.F32
    x = build.cast(call.x, wide)
    if x.type.rank not in (1, 2):
        call.fail(f"x is one or two axes, got {x.type}")
    points = call.integer("fft_length", 2048)
    spectra = _transformed(call, x, points, wide)
    real, imaginary = spectra
    y = build.sqrt(build.add(build.mul(real, real), build.mul(imaginary, imaginary)))
    exponent = call.number("mag_exp", 2.0)
    if exponent != 1:
        y = build.mul(y, y) if exponent == 2 else build.apply1("pow", y, exponent)
    weights = build.constant(_mel_weights(call, points // 2 + 1), wide)
    y = build.dot(y, weights, ((y.type.rank - 1,), (0,)))
    if call.flag("power_to_db", True):
        y = _decibels(call, y)
    return build.cast(build.apply1("swapaxes", y, a=-1, b=-2), call.dtype)


def _transformed(call: LayerCall, x: Node, points: int, dtype: DType) -> tuple[Node, ...]:
    """The real and imaginary part of the transform of each window of x, whose ends are mirrored."""
    length, step = call.integer("sequence_length", points), call.integer("sequence_stride", 512)
    size, axis = x.shape[-1], x.type.rank - 1
    if not isinstance(size, int):
        call.fail(f"the number of samples of {x.type} must be known", f"--dim {size}=…")
    if length > points or size <= points // 2:
        call.fail(
            f"windows of {length} samples, {points} points and {size} samples do not go together: "
            "windows have at most as many samples as points, and x more than half as many"
        )
    check_table("MelSpectrogram", (1 + size / step) * points, x.type)
    border = [(0, 0)] * axis + [(points // 2, points // 2)]
    x = build.apply1("pad_mode", x, pads=border, mode="reflect")
    count = 1 + (size + points // 2 * 2 - points) // step
    places = np.arange(count)[:, None] * step + np.arange(points)
    frames = build.take(x, build.constant(places), axis)
    window = _window(call, length)
    if window is not None:
        before = (points - length) // 2
        window = np.pad(window, (before, points - length - before))
        frames = build.mul(frames, build.constant(window, dtype))
    parts = build.apply("rfft", frames, axis=axis + 1)
    assert isinstance(parts, tuple)
    return parts


def _window(call: LayerCall, length: int) -> Array | None:
    """The factors of the samples under a window."""
    named: Any = call.layer.config.get("window", "hann")
    if named is None:
        return None
    if isinstance(named, str):
        share = {"hann": 0.5, "hamming": 0.54}.get(named)
        if share is None:
            call.unsupported(f"the window {named!r} is not supported", "'hann' and 'hamming' are")
        if length == 1:
            return np.ones(1)
        period = length - length % 2  # as TensorFlow counts it
        return share - (1 - share) * np.cos(2 * np.pi * np.arange(length) / period)
    if isinstance(named, dict):
        named = named.get("config", {}).get("value")
    if not isinstance(named, list) or len(named) != length:
        call.fail(f"its window has not the {length} factors of its sequence_length")
    return np.asarray(named, np.float64)


def _mel_weights(call: LayerCall, bins: int) -> Array:
    """How much each frequency (bins) is of each frequency as heard: triangles of equal width on the
    mel scale.
    """
    rate, wanted = call.number("sampling_rate", 16000), call.integer("num_mel_bins", 128)
    check_table("MelSpectrogram", float(bins) * wanted, call.x.type)
    highest = call.number("max_freq", float(int(rate / 2)))
    least = call.number("min_freq", 20.0)

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log(1.0 + hertz / 700.0)

    heard = mel(np.linspace(0.0, rate / 2, bins)[1:])[:, None]
    edges = np.linspace(mel(least), mel(highest), wanted + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = np.minimum((heard - low) / (centre - low), (high - heard) / (high - centre))
    return np.pad(np.maximum(slopes, 0.0), ((1, 0), (0, 0)))


def _decibels(call: LayerCall, x: Node) -> Node:
    """Powers on a logarithmic scale, none further below the largest than is wanted."""
    least = call.number("min_power", 1e-10)
    factor = 10.0 / np.log(10.0)
    y = build.mul(build.log(build.maximum(x, least)), factor)
    y = build.sub(y, float(factor * np.log(max(abs(call.number("ref_power", 1.0)), least))))
    most = build.reduce(y, "max", None)
    return build.maximum(y, build.sub(most, call.number("top_db", 80.0)))
