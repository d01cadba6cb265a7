"""Fourier transforms and complex numbers, which have a last axis of real and imaginary parts."""

from __future__ import annotations

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build


@operator("RFFT2D")
def rfft_2d(call: TFLiteCall) -> Node:
    """The transform of the last two axes, cut or padded with zeros to the lengths of the second
    input.
    """
    x = call[0]
    rows, columns = call.ints(1)
    rank = x.type.rank
    ends = []
    for wanted, size in zip((rows, columns), x.shape[-2:], strict=True):
        if not isinstance(size, int):
            call.fail(f"the last two axes of {x.type} must be known")
        ends.append(wanted - size)
    x = build.pad(x, 0.0, [0] * rank, [*[0] * (rank - 2), *ends])
    spectrum = build.apply("rfft", x, axis=rank - 1)
    assert isinstance(spectrum, tuple)
    parts = build.apply("fft", *spectrum, axis=rank - 2)
    assert isinstance(parts, tuple)
    return build.apply1("stack", *parts, axis=rank)


def _part(name: str, number: int) -> None:
    @operator(name)
    def part(call: TFLiteCall) -> Node:
        x = call[0]
        return build.reshape(build.cut(x, x.type.rank - 1, number, number + 1), x.shape[:-1])


_part("REAL", 0)
_part("IMAG", 1)


@operator("COMPLEX_ABS")
def complex_abs(call: TFLiteCall) -> Node:
    """The absolute values of complex numbers."""
    x = call[0]
    return build.sqrt(build.reduce(build.mul(x, x), "add", x.type.rank - 1))
