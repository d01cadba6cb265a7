"""Operations that create tensors, and those that only order or group values."""

from __future__ import annotations

import numpy as np

from xlac.frontends.stablehlo.ops.conversion import convert_to
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.text.syntax import Element
from xlac.frontends.stablehlo.values import Several, Token, TypedTensor
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.control.effect import Barrier
from xlac_sdk.dtypes import DType


@operation("constant", "chlo.constant", section="constant")
def constant(site: OperationSite) -> Built:
    """A constant; a splat becomes a broadcast scalar."""
    array, element = site.array("value"), site.result.element
    return literal(array, element)


def literal(array: Array, element: Element) -> TypedTensor:
    """A constant tensor from an array in the storage type; equal elements become a broadcast
    scalar.
    """
    if element.complex:
        part = part_of(element)
        return TypedTensor(
            element, tuple(literal(np.asarray(p), part).node for p in (array.real, array.imag))
        )
    if array.size > 1 and not any(array.strides):
        return TypedTensor(
            element, (build.spread(build.constant(array.reshape(-1)[0]), array.shape, ()),)
        )
    return TypedTensor(element, (build.constant(np.asarray(array, element.dtype.numpy)),))


@operation("iota")
def iota(site: OperationSite) -> Built:
    """Indices along one axis."""
    return counted(site, site.sizes)


def counted(site: OperationSite, shape: Shape) -> TypedTensor:
    """Indices along the operation's iota_dimension."""
    element = site.result.element
    axis = site.axis("iota_dimension", len(shape))
    if element.plain and element.dtype is not DType.BOOL:
        return TypedTensor(element, (build.iota(shape, axis, element.dtype),))
    whole = TypedTensor(Element("i64", DType.I64), (build.iota(shape, axis, DType.I64),))
    return convert_to(whole, element)


# ---- tokens, tuples and barriers ----------------------------------------------------------------


@operation("after_all", "create_token")
def token(site: OperationSite) -> Built:
    """A token. Tokens order side effects, which no operation here has."""
    return Token()


@operation("tuple")
def tuple_(site: OperationSite) -> Built:
    """A tuple; tuples exist only during import."""
    return Several(tuple(site.operands))


@operation("get_tuple_element")
def element_of_tuple(site: OperationSite) -> Built:
    """One value of a tuple."""
    site.takes(1)
    value, index = site.operands[0], site.integer("index")
    if not isinstance(value, Several) or not 0 <= index < len(value.items):
        site.fail(f"there is no element {index}")
    return value.items[index]


@operation("optimization_barrier")
def optimization_barrier(site: OperationSite) -> Built:
    """Its operands, across which no pass fuses or rewrites."""
    return [
        value.each([_barred(part) for part in value.parts])
        if isinstance(value, TypedTensor)
        else value
        for value in site.operands
    ]


def _barred(x: Node) -> Node:
    return Node.of(Barrier(), x)


@operation("mhlo.copy", section="MHLO, of which TensorFlow writes this one")
def copied(site: OperationSite) -> Built:
    """The operand itself."""
    return site.operands[0]
