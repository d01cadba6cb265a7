"""Operations on elements: arithmetic, comparisons, choices and conversions."""

from __future__ import annotations

from xlac.frontends.stablehlo import complex_functions
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, numbers, stored
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.scalar import convert
from xlac_sdk.dtypes import DType

UNARY = {
    "abs": "abs", "cbrt": "cbrt", "ceil": "ceil", "cosine": "cos", "exponential": "exp",
    "exponential_minus_one": "expm1", "floor": "floor", "log": "log", "log_plus_one": "log1p",
    "logistic": "sigmoid", "negate": "neg", "not": "not", "round_nearest_afz": "round_half_away",
    "round_nearest_even": "round", "rsqrt": "rsqrt", "sign": "sign", "sine": "sin", "sqrt": "sqrt",
    "tan": "tan", "tanh": "tanh",
}  # fmt: skip
"""xlac's operation for each StableHLO operation on one real tensor."""
BINARY = {
    "add": "add", "atan2": "atan2", "divide": "div", "maximum": "max", "minimum": "min",
    "multiply": "mul", "power": "pow", "remainder": "rem", "subtract": "sub", "and": "and",
    "or": "or", "xor": "xor",
}  # fmt: skip
LOGICAL = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and", "subtract": "xor"}
"""Arithmetic on i1 as logical operations."""


@operation(*UNARY)
def unary(site: OperationSite) -> Built:
    """One operand, element by element: the table `UNARY`; for complex numbers that of
    `complex_functions`.
    """
    site.takes(1)
    x = site.tensor(0)
    if x.element.complex:
        function = complex_functions.UNARY.get(site.name)
        return function(x) if function else site.fail("is not defined on complex numbers")
    return stored(build.apply1(UNARY[site.name], numbers(x)), site.result.element)


@operation(*BINARY)
def binary(site: OperationSite) -> Built:
    """Two operands of one type, element by element: the table `BINARY`, `LOGICAL` for i1,
    `complex_functions` for complex numbers.
    """
    site.takes(2)
    x, y = site.tensors()
    site.importer.agree([x.shape, y.shape])
    if x.element.complex or y.element.complex:
        function = complex_functions.BINARY.get(site.name)
        if function is None or x.element != y.element:
            site.fail(f"is not defined on {x.element.text} and {y.element.text}")
        return function(x, y)
    mnemonic = BINARY[site.name]
    if x.element.dtype is DType.BOOL:
        mnemonic = LOGICAL.get(site.name, mnemonic)
    return stored(build.apply1(mnemonic, *same(site, x, y)), site.result.element)


def same(site: OperationSite, *xs: TypedTensor) -> tuple[Node, ...]:
    """Operands as numbers; those whose element type or shape differs from the first one's are
    refused.
    """
    nodes = tuple(map(numbers, xs))
    for x, node in zip(xs, nodes, strict=True):
        if node.type.dtype is not nodes[0].type.dtype or x.shape != xs[0].shape:
            site.fail(f"needs operands of one type, got {nodes[0].type} and {node.type}")
    return nodes


@operation("popcnt", "count_leading_zeros")
def counted_bits(site: OperationSite) -> Built:
    """Bit counts within the type's width: bits of a wider storage type are masked off first."""
    x = site.real(0)
    name, node = ("popcnt" if site.name == "popcnt" else "clz"), x.node
    if not x.element.bits:
        return build.apply1(name, node)
    low = build.apply1("and", build.cast(node, DType.U8), (1 << x.element.bits) - 1)
    count = build.apply1(name, low)
    return build.cast(
        count if name == "popcnt" else build.sub(count, 8 - x.element.bits), x.element.dtype
    )


@operation("shift_left", "shift_right_arithmetic", "shift_right_logical")
def shifted(site: OperationSite) -> Built:
    """Shifts; an amount, taken as unsigned, of the width or more gives all zeros or all
    sign bits.
    """
    site.takes(2)
    x, y = (t.node for t in (site.real(0), site.real(1)))
    element = site.result.element
    width = element.bits or element.dtype.bits
    whole = DType(f"u{element.dtype.bits}")
    by = build.cast(y, whole)
    beyond = build.compare(by, "ge", width)
    if site.name == "shift_right_arithmetic":
        amount = build.select(beyond, width - 1, by)
        return build.apply1("shr", x, build.cast(amount, x.type.dtype))
    pattern = build.cast(x, whole)
    if element.bits:
        pattern = build.apply1("and", pattern, (1 << width) - 1)
    moved = build.apply1(
        "shl" if site.name == "shift_left" else "shr", pattern, build.select(beyond, 0, by)
    )
    return stored(build.cast(build.select(beyond, 0, moved), element.dtype), element)


@operation("compare")
def compare(site: OperationSite) -> Built:
    """A comparison; TOTALORDER compares floats by their bits, so that -0 < 0 and NaNs
    are ordered.
    """
    site.takes(2)
    x, y = site.tensors()
    site.importer.agree([x.shape, y.shape])
    direction = site.word("comparison_direction").lower()
    if x.element.complex:
        return complex_functions.compare(direction, x, y) or site.fail(
            "complex numbers have no order"
        )
    a, b = same(site, x, y)
    if site.word("compare_type", "") == "TOTALORDER" and a.type.dtype.is_float:
        a, b = total_order(a), total_order(b)
    if a.type.dtype is DType.BOOL and direction not in ("eq", "ne"):
        a, b = build.cast(a, DType.U8), build.cast(b, DType.U8)
    return build.compare(a, direction, b)


def total_order(x: Node) -> Node:
    """An integer for each float that orders as IEEE 754's total order: -NaN, -inf, …, -0, +0, …,
    inf, NaN.
    """
    bits = x.type.dtype.bits
    pattern = Node.of(convert.Bitcast(DType(f"i{bits}")), x)
    ordered = build.apply1("xor", pattern, (1 << (bits - 1)) - 1)
    return build.select(build.compare(pattern, "lt", 0), ordered, pattern)


@operation("select")
def select(site: OperationSite) -> Built:
    """Elements of one of two tensors; the condition has their shape or is a scalar."""
    site.takes(3)
    condition, x, y = site.real(0).node, site.tensor(1), site.tensor(2)
    if condition.type.dtype is not DType.BOOL or x.element != y.element:
        site.fail("takes an i1 and two tensors of one type")
    site.importer.agree([x.shape, y.shape, *([condition.shape] if condition.shape else [])])
    if x.shape != y.shape or condition.shape not in ((), x.shape):
        site.fail(
            f"needs equal shapes, got {condition.type}, {x.parts[0].type} and {y.parts[0].type}"
        )
    return x.each([build.select(condition, a, b) for a, b in zip(x.parts, y.parts, strict=True)])


@operation("clamp")
def clamp(site: OperationSite) -> Built:
    """min(max(x, low), high); the bounds may be scalars."""
    site.takes(3)
    low, x, high = (site.number(n) for n in range(3))
    for bound in (low, high):
        if bound.type.dtype is not x.type.dtype or bound.shape not in ((), x.shape):
            site.fail(f"bound {bound.type} does not fit {x.type}")
    return stored(build.minimum(build.maximum(x, low), high), site.result.element)


@operation("is_finite")
def is_finite(site: OperationSite) -> Built:
    """Whether an element is neither NaN nor infinite."""
    return build.apply1("isfinite", site.number(0))


@operation("reduce_precision")
def reduce_precision(site: OperationSite) -> Built:
    """Rounds to fewer bits of exponent and mantissa."""
    given = {
        "exponent_bits": site.integer("exponent_bits"),
        "mantissa_bits": site.integer("mantissa_bits"),
    }
    return stored(build.apply1("reduce_precision", site.number(0), **given), site.result.element)


# ---- complex numbers and their parts
# -----------------------------------------------------------------


@operation("complex")
def complex_(site: OperationSite) -> Built:
    """A complex tensor from its parts, which stay two tensors during import."""
    site.takes(2)
    return TypedTensor(site.result.element, same(site, site.real(0), site.real(1)))


@operation("real", "imag")
def part(site: OperationSite) -> Built:
    """The real or imaginary part; of a real number itself, or 0."""
    x = site.tensor(0)
    if not x.element.complex:
        return x if site.name == "real" else build.like(0.0, x.node)
    return x.parts[site.name == "imag"]
