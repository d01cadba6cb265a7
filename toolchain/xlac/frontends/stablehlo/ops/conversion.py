"""Conversions of element types: by value, quantization, bitcasts."""

from __future__ import annotations

from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.syntax import Element
from xlac.frontends.stablehlo.values import TypedTensor, numbers, stored
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar import convert
from xlac_sdk.dtypes import DType


@operation("convert")
def converted(site: OperationSite) -> Built:
    """Conversion between element types, by value."""
    return convert_to(site.tensor(0), site.result.element)


def convert_to(x: TypedTensor, element: Element) -> TypedTensor:
    """Converts by value. A complex number that becomes real loses its imaginary part."""
    if element.complex:
        real = build.cast(numbers(x) if not x.element.complex else x.parts[0], element.dtype)
        imaginary = (
            build.cast(x.parts[1], element.dtype) if x.element.complex else build.like(0, real)
        )
        return TypedTensor(element, (real, imaginary))
    node = x.parts[0] if x.element.complex else numbers(x)
    if element.format or element.quantization:
        if node.type.dtype is not DType.F64:
            node = build.cast(node, DType.F32)
        return stored(node, element)
    if element.bits and node.type.dtype.is_float:
        least = -(1 << (element.bits - 1)) if element.dtype.is_signed else 0
        node = build.minimum(
            build.maximum(node, float(least)), float(least + (1 << element.bits) - 1)
        )
    return stored(build.cast(node, element.dtype), element)


@operation("uniform_quantize", "uniform_dequantize")
def quantize(site: OperationSite) -> Built:
    """Quantizes floats, requantizes integers from one scale to another, and
    dequantizes integers.
    """
    return stored(
        build.cast(numbers(site.real(0)), expressed(site.result.element)), site.result.element
    )


def expressed(element: Element) -> DType:
    """The expressed type of a quantized element type; any other element's own type."""
    return element.quantization.expressed.dtype if element.quantization else element.dtype


@operation("bitcast_convert")
def bitcast(site: OperationSite) -> Built:
    """A bitcast; the last axis grows or shrinks by the ratio of widths."""
    x, element = site.tensor(0), site.result.element
    if x.element.complex or element.complex:
        return _complex_bits(site, x, element)
    if x.element.bits or element.bits:
        return _narrow_bits(site, x, element)
    if DType.BOOL in (x.element.dtype, element.dtype):
        if x.element.dtype is element.dtype:
            return x
        site.fail("takes no i1")
    return Node.of(convert.Bitcast(element.dtype), x.node)


def _complex_bits(site: OperationSite, x: TypedTensor, element: Element) -> Built:
    """A bitcast of complex numbers, by the bits of the two parts along a last axis."""
    if x.element.complex and element.complex:
        return (
            x.each(x.parts)
            if x.element == element
            else site.fail("cannot change the width of complex numbers")
        )
    if x.element.complex:
        pair = build.concat(
            [build.reshape(p, (*p.shape, 1)) for p in x.parts], x.parts[0].type.rank
        )
        same_width = element.dtype.bits == x.element.dtype.bits
        return (
            Node.of(convert.Bitcast(element.dtype), pair)
            if same_width
            else site.fail("the widths do not fit")
        )
    parts = Node.of(convert.Bitcast(element.dtype), x.node)
    last = parts.type.rank - 1
    if last < 0 or parts.shape[last] != 2:
        site.fail("needs a last axis of 2, the parts")
    return TypedTensor(
        element,
        tuple(build.reshape(build.cut(parts, last, n, n + 1), parts.shape[:-1]) for n in (0, 1)),
    )


def _narrow_bits(site: OperationSite, x: TypedTensor, element: Element) -> Built:
    """A bitcast between integers of 2 or 4 bits and wider ones: the first element of the last axis
    holds the lowest bits.
    """
    old, new = x.element.bits or x.element.dtype.bits, element.bits or element.dtype.bits
    raw = (
        x.node
        if not x.element.bits
        else build.apply1("and", build.cast(x.node, DType.U8), (1 << old) - 1)
    )
    if not x.element.bits:
        raw = Node.of(convert.Bitcast(DType(f"u{old}")), raw)
    if old == new:
        return stored(build.cast(raw, element.dtype), element)
    if new < old:
        count = old // new
        shifts = build.constant([n * new for n in range(count)], raw.type.dtype)
        shape = (*raw.shape, count)
        parts = build.apply1(
            "shr",
            build.spread(raw, shape, range(raw.type.rank)),
            build.spread(shifts, shape, (len(shape) - 1,)),
        )
        return stored(build.cast(parts, element.dtype), element)
    count, last = new // old, raw.type.rank - 1
    if last < 0 or raw.shape[last] != count:
        site.fail(f"needs a last axis of {count}")
    whole = DType(f"u{max(8, new)}")
    each = [
        build.cast(build.reshape(build.cut(raw, last, n, n + 1), raw.shape[:-1]), whole)
        for n in range(count)
    ]
    packed = each[0]
    for number, part in enumerate(each[1:], 1):
        packed = build.apply1("or", packed, build.apply1("shl", part, number * old))
    return stored(
        Node.of(convert.Bitcast(element.dtype), packed)
        if not element.bits
        else build.cast(packed, element.dtype),
        element,
    )
