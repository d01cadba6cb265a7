"""Values during import, and the representation of element types that xlac lacks.

A complex tensor is two nodes, real and imaginary. A minifloat is its code in u8; an integer of 2 or
4 bits is stored in 8, always in range. A quantised tensor is its integers. Arithmetic decodes
operands with `numbers` and encodes results with `stored`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.frontends.stablehlo.text.syntax import (
    Element,
    TensorType,
    TokenType,
    TupleType,
    ValueType,
)
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class TypedTensor:
    """A tensor with an element type of StableHLO, and the nodes that represent it: one, or two for
    the parts of complex numbers.
    """

    element: Element
    parts: tuple[Node, ...]

    @property
    def node(self) -> Node:
        """The single node of a tensor that is not complex."""
        (node,) = self.parts
        return node

    @property
    def shape(self) -> Shape:
        """The shape that all parts have."""
        return self.parts[0].shape

    def each(self, parts: Sequence[Node]) -> TypedTensor:
        """The same element type with other parts."""
        return TypedTensor(self.element, tuple(parts))


@dataclass(frozen=True, slots=True)
class Token:
    """A token. Tokens order side effects, which no operation here has."""


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple of values."""

    items: tuple[Value, ...]


Value = TypedTensor | Token | Several


def nodes_of(values: Sequence[Value]) -> tuple[Node, ...]:
    """All nodes of values, in order, as they are passed into or out of a body."""
    nodes: list[Node] = []
    for value in values:
        if isinstance(value, TypedTensor):
            nodes += value.parts
        elif isinstance(value, Several):
            nodes += nodes_of(value.items)
    return tuple(nodes)


def rebuilt(like: Value, nodes: list[Node]) -> Value:
    """A value of the same kind as another, from its nodes, which are taken from the front of the
    list.
    """
    if isinstance(like, TypedTensor):
        return like.each([nodes.pop(0) for _ in like.parts])
    return (
        Several(tuple(rebuilt(item, nodes) for item in like.items))
        if isinstance(like, Several)
        else like
    )


def leaves(type: ValueType) -> tuple[TensorType | TokenType, ...]:
    """The tensor and token types in a type."""
    if isinstance(type, TupleType):
        return tuple(leaf for item in type.items for leaf in leaves(item))
    assert isinstance(type, TensorType | TokenType)
    return (type,)


# ---- numbers and how they are stored
# ---------------------------------------------------------------


def numbers(x: TypedTensor) -> Node:
    """A real tensor decoded to numbers: minifloats to f32, quantised integers to their expressed
    type.
    """
    element = x.element
    if element.format:
        return build.apply1("decode_float", x.node, format=element.format)
    if element.quantization:
        return dequantized(x.node, element)
    return x.node


def stored(x: Node, element: Element) -> TypedTensor:
    """Numbers encoded in an element type: rounded to a minifloat, wrapped to few bits, or
    quantised.
    """
    if element.format:
        return TypedTensor(
            element, (build.apply1("encode_float", build.floating(x), format=element.format),)
        )
    if element.quantization:
        return TypedTensor(element, (quantized(x, element),))
    return TypedTensor(element, (wrapped(x, element),))


def wrapped(x: Node, element: Element) -> Node:
    """An integer wrapped to the type's width of less than 8 bits; other element types unchanged."""
    if not element.bits:
        return x
    gone = 8 - element.bits
    return build.apply1("shr", build.apply1("shl", x, gone), gone)


def arithmetic(element: Element) -> DType:
    """The element type of the result of `numbers`."""
    if element.quantization:
        return element.quantization.expressed.dtype
    return DType.F32 if element.format else element.dtype


# ---- quantised types (StableHLO specification, Quantized types)
# --------------------------------------


def _along(values: Sequence[float], element: Element, x: Node, dtype: DType) -> Node:
    """Scales or zero points, one or one for each entry of the quantisation axis,
    broadcast over x.
    """
    known = element.quantization
    assert known is not None
    constant = build.constant(list(values), dtype)
    if known.axis is None:
        return build.spread(build.reshape(constant, ()), x.shape, ())
    return build.along(constant, known.axis, x.type.rank, x.shape)


def dequantized(x: Node, element: Element) -> Node:
    """(q - zero point) * scale in the expressed type."""
    known = element.quantization
    assert known is not None
    dtype = known.expressed.dtype
    shifted = build.sub(build.cast(x, DType.I32), _along(known.zero_points, element, x, DType.I32))
    return build.mul(build.cast(shifted, dtype), _along(known.scales, element, x, dtype))


def quantized(x: Node, element: Element) -> Node:
    """clamp(round_nearest_even(x / scale) + zero point, storage minimum, storage maximum)."""
    known = element.quantization
    assert known is not None
    whole = build.apply1("round", build.div(x, _along(known.scales, element, x, x.type.dtype)))
    moved = build.add(
        whole, _along([float(z) for z in known.zero_points], element, x, x.type.dtype)
    )
    held = build.minimum(build.maximum(moved, float(known.least)), float(known.most))
    return build.cast(held, element.dtype)
