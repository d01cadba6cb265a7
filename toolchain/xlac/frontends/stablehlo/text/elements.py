"""Element types by their names in MLIR (StableHLO specification, Types)."""

from __future__ import annotations

from xlac.frontends.stablehlo.text.syntax import Element
from xlac.ops.scalar.minifloat import FORMATS
from xlac_sdk.dtypes import DType


def _plain() -> dict[str, Element]:
    names = {
        "i1": DType.BOOL,
        "f16": DType.F16,
        "bf16": DType.BF16,
        "f32": DType.F32,
        "f64": DType.F64,
    }
    for width in (8, 16, 32, 64):
        names |= {
            f"i{width}": DType(f"i{width}"),
            f"si{width}": DType(f"i{width}"),
            f"ui{width}": DType(f"u{width}"),
        }
    return {name: Element(name.removeprefix("s"), dtype) for name, dtype in names.items()}


def _narrow() -> dict[str, Element]:
    elements: dict[str, Element] = {}
    for bits in (2, 4):
        elements |= {
            f"i{bits}": Element(f"i{bits}", DType.I8, bits=bits),
            f"ui{bits}": Element(f"ui{bits}", DType.U8, bits=bits),
        }
        elements[f"si{bits}"] = elements[f"i{bits}"]
    return elements


def _minifloats() -> dict[str, Element]:
    """MLIR writes f8E4M3FN for f8e4m3fn."""
    elements = {}
    for format in FORMATS:
        name = format[0] + format[1:].upper()
        elements[name] = Element(name, DType.U8, format=format)
    return elements


ELEMENTS: dict[str, Element] = _plain() | _narrow() | _minifloats()
F32, F64, BOOL = ELEMENTS["f32"], ELEMENTS["f64"], ELEMENTS["i1"]


def complex_of(part: Element) -> Element:
    """The complex type whose parts have the given element type."""
    return Element(f"complex<{part.text}>", part.dtype, complex=True)


def part_of(element: Element) -> Element:
    """The element type of the parts of a complex type."""
    return ELEMENTS[element.dtype.value]
