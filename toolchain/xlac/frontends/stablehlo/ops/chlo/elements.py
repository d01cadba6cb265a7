"""CHLO: client-level operations that jax.export and torch_xla leave in StableHLO text."""

from __future__ import annotations

from xlac.frontends.stablehlo.complex_functions import CHLO
from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.dynamic import known as sizes
from xlac.frontends.stablehlo.ops.elementwise import total_order
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.elements import ELEMENTS
from xlac.frontends.stablehlo.values import TypedTensor, numbers, stored
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType

UNARY = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan",
    "atanh": "atanh", "cosh": "cosh", "bessel_i1e": "bessel_i1e", "digamma": "digamma",
    "erf": "erf", "erf_inv": "erf_inv", "erfc": "erfc", "lgamma": "lgamma", "sinh": "sinh",
    "square": "square", "tan": "tan", "is_inf": "isinf",
}  # fmt: skip
BINARY = {"polygamma": "polygamma", "zeta": "zeta", "next_after": "next_after"}


SECTION = "CHLO"


@operation(*(f"chlo.{name}" for name in UNARY), section=SECTION)
def unary(site: OperationSite) -> Built:
    """One operand, element by element: the table `UNARY`, and `CHLO` for complex numbers."""
    site.takes(1)
    name = site.name.removeprefix("chlo.")
    x = site.tensor(0)
    if x.element.complex:
        function = CHLO.get(name)
        return function(x) if function else site.fail("is not defined on complex numbers")
    return stored(build.apply1(UNARY[name], numbers(x)), site.result.element)


@operation(*(f"chlo.{name}" for name in BINARY), section=SECTION)
def binary(site: OperationSite) -> Built:
    """Two operands, element by element: the table `BINARY`."""
    site.takes(2)
    result = build.apply1(BINARY[site.name.removeprefix("chlo.")], site.number(0), site.number(1))
    return stored(result, site.result.element)


@operation("chlo.mulhi", section=SECTION)
def mulhi(site: OperationSite) -> Built:
    """The upper half of the bits of a product of integers."""
    site.takes(2)
    x, y = site.number(0), site.number(1)
    dtype = x.type.dtype
    if dtype.bits < 64:
        wide = DType.I64 if dtype.is_signed else DType.U64
        product = build.mul(build.cast(x, wide), build.cast(y, wide))
        return build.cast(build.apply1("shr", product, build.like(dtype.bits, product)), dtype)
    a, b = (build.apply1("bitcast", v, dtype=DType.U64) for v in (x, y))
    upper = _upper(a, b)
    if dtype.is_signed:  # a negative number is 2^64 less than its bits
        for one, other in ((x, b), (y, a)):
            less = build.select(build.compare(one, "lt", 0), other, build.like(0, other))
            upper = build.sub(upper, less)
        upper = build.apply1("bitcast", upper, dtype=dtype)
    return upper


def _upper(a: Node, b: Node) -> Node:
    """The upper 64 bits of a product of u64, from products of 32 bits."""
    half = build.like(32, a)

    def low(x: Node) -> Node:
        return build.apply1("and", x, build.like(0xFFFFFFFF, x))

    def high(x: Node) -> Node:
        return build.apply1("shr", x, half)

    lower = high(build.mul(low(a), low(b)))
    first = build.add(build.mul(high(a), low(b)), lower)
    second = build.add(build.mul(low(a), high(b)), low(first))
    return build.add(build.add(build.mul(high(a), high(b)), high(first)), high(second))


@operation("chlo.is_pos_inf", "chlo.is_neg_inf", section=SECTION)
def is_infinite(site: OperationSite) -> Built:
    """Whether an element is infinite, of one sign."""
    return build.compare(
        site.number(0), "eq", float("inf") if site.name == "chlo.is_pos_inf" else float("-inf")
    )


@operation("chlo.conj", section=SECTION)
def conjugate(site: OperationSite) -> Built:
    """The conjugate; of a real number the number itself."""
    x = site.tensor(0)
    return x.each([x.parts[0], build.apply1("neg", x.parts[1])]) if x.element.complex else x


@operation("chlo.constant_like", section=SECTION)
def constant_like(site: OperationSite) -> Built:
    """A constant in the shape of a tensor."""
    value, x = site.get("value"), site.tensor(0)
    if not isinstance(value, int | float):
        site.fail("attribute 'value' must be a number")
    element = site.result.element
    parts = [build.full(value, x.shape, element.dtype)] + [
        build.full(0, x.shape, element.dtype)
    ] * element.complex
    return TypedTensor(element, tuple(parts))


@operation("chlo.top_k", section=SECTION)
def top_k(site: OperationSite) -> Built:
    """The first k along the last axis in descending total order, NaN first and -NaN last, and their
    indices.
    """
    return largest(site.tensor(0), site.integer("k"))


def dynamic_top_k(site: OperationSite) -> Built:
    """The same, with k as an operand: a size."""
    site.takes(2)
    (k,) = sizes(site, 1)
    return largest(site.tensor(0), k)


CUSTOM_CALLS["stablehlo.dynamic_top_k"] = dynamic_top_k


def largest(x: TypedTensor, k: Dim) -> list[TypedTensor]:
    """The first k along the last axis in descending total order, and their indices."""
    rank = len(x.shape)
    keys = numbers(x)
    keys = total_order(keys) if keys.type.dtype.is_float else keys
    places = build.iota(keys.shape, rank - 1, DType.I32)
    _, places = build.results(Node.of(Sort(rank - 1, True, 1), keys, places))
    places = build.cut(places, rank - 1, 0, k)
    chosen = x.each(
        [build.apply1("take_along_axis", part, places, axis=rank - 1) for part in x.parts]
    )
    return [chosen, TypedTensor(ELEMENTS["i32"], (places,))]
