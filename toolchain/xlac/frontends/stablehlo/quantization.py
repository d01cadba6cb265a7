"""Parses `!quant.uniform<...>`: quantised element types (StableHLO specification,
Quantized types).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from xlac.frontends.stablehlo.text.syntax import Element, Quantization

FORM = re.compile(
    r"\s*(?P<storage>[iu]\d+)\s*(?:<\s*(?P<least>-?\d+)\s*:\s*(?P<most>-?\d+)\s*>)?\s*:\s*(?P<expressed>\w+)\s*"
    r"(?::\s*(?P<axis>\d+)\s*)?,\s*(?P<rest>[^<>]*)$"
)


def quantized(text: str, elements: Mapping[str, Element]) -> Element:
    """The element type from the text inside the brackets: `i8<-127:127>:f32:1, {0.5:3, 0.25}`.
    Raises ValueError.
    """
    match = FORM.match(text)
    if match is None:
        raise ValueError(f"cannot read the quantised type {text[:80]!r}")
    storage = elements.get(match["storage"].replace("u", "ui"))
    expressed = elements.get(match["expressed"])
    if (
        storage is None
        or not storage.dtype.is_integer
        or expressed is None
        or not expressed.dtype.is_float
        or not expressed.plain
    ):
        raise ValueError(
            f"a quantised type stores integers and stands for floats, got {text[:80]!r}"
        )
    scales, zeros = [], []
    for part in match["rest"].strip().strip("{}").split(","):
        scale, _, zero = part.partition(":")
        scales.append(float(scale))
        zeros.append(int(zero) if zero.strip() else 0)
    axis = int(match["axis"]) if match["axis"] else None
    if axis is None and len(scales) != 1:
        raise ValueError("several scales need an axis")
    bits = storage.bits or storage.dtype.bits
    signed = storage.dtype.is_signed
    least = int(match["least"]) if match["least"] else -(1 << (bits - 1)) if signed else 0
    most = int(match["most"]) if match["most"] else (1 << (bits - 1 if signed else bits)) - 1
    quantization = Quantization(expressed, tuple(scales), tuple(zeros), axis, least, most)
    return Element(f"!quant.uniform<{text}>", storage.dtype, quantization=quantization)
