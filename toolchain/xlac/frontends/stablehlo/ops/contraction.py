"""Contractions: dot products and convolutions, of every element type.

`precision_config` and `algorithm` allow less precision than the element type has; they are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xlac.frontends.stablehlo.ops.indexing import listed
from xlac.frontends.stablehlo.ops.views import flipped
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.text.syntax import Element, Raw
from xlac.frontends.stablehlo.values import TypedTensor, arithmetic, numbers, stored
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.conv_transposed import kernel_cotangent
from xlac_sdk.dtypes import DType

Product = Callable[[Node, Node, DType], Node]
"""Builds a contraction of two nodes of one element type with a result type at least as wide."""


def contracted(
    site: OperationSite, x: TypedTensor, y: TypedTensor, element: Element, product: Product
) -> TypedTensor:
    """A contraction of tensors: complex operands need four real ones, narrow types are summed in
    wider ones.
    """
    if x.element.complex or y.element.complex:
        if x.element != y.element or x.element != element:
            site.fail(f"is not defined on {x.element.text} and {y.element.text}")
        (a, b), (c, d) = x.parts, y.parts
        dtype = element.dtype
        real = build.sub(product(a, c, dtype), product(b, d, dtype))
        return TypedTensor(element, (real, build.add(product(a, d, dtype), product(b, c, dtype))))
    left, right = numbers(x), numbers(y)
    if left.type.dtype is DType.BOOL and right.type.dtype is DType.BOOL:
        products = product(build.cast(left, DType.I32), build.cast(right, DType.I32), DType.I32)
        return TypedTensor(element, (build.cast(products, element.dtype),))
    wide = arithmetic(element)
    common, sums = meeting(left.type.dtype, right.type.dtype, wide)
    products = product(build.cast(left, common), build.cast(right, common), sums)
    return stored(build.cast(products, wide), element)


def meeting(left: DType, right: DType, wanted: DType) -> tuple[DType, DType]:
    """The type that operands are cast to, and the type of the sums."""
    if (
        left is right
        and left.is_float is wanted.is_float
        and wanted.bits >= left.bits
        and left is not DType.BOOL
        and (left is wanted or left.bits < wanted.bits)
    ):
        same_sign = left.is_float or left.is_signed is wanted.is_signed
        if same_sign:
            return left, wanted
    if wanted.is_float:
        widest = (
            build.promote(build.promote(left, right), wanted)
            if left.is_float or right.is_float
            else wanted
        )
        return widest, widest
    if left.is_float or right.is_float:
        widest = build.promote(left, right)
        return widest, widest
    largest = max((left, right, wanted), key=lambda d: d.bits)
    return largest, largest


@operation("dot_general")
def dot_general(site: OperationSite) -> Built:
    """dot_general: sums over the contracting axes; batching axes come first."""
    site.takes(2)
    fields = site.fields("dot_dimension_numbers")
    batch = tuple(listed(site, fields, f"{side}_batching_dimensions") for side in ("lhs", "rhs"))
    contract = tuple(
        listed(site, fields, f"{side}_contracting_dimensions") for side in ("lhs", "rhs")
    )
    return contracted(
        site,
        site.tensor(0),
        site.tensor(1),
        site.result.element,
        _dots((contract[0], contract[1]), (batch[0], batch[1])),
    )


def _dots(contract: Any, batch: Any = ((), ())) -> Product:
    return lambda x, y, dtype: build.dot(x, y, contract, batch, dtype)


@operation("dot")
def dot(site: OperationSite) -> Built:
    """dot on vectors and matrices: contracts the last axis with the first."""
    site.takes(2)
    x, y = site.tensors()
    return contracted(site, x, y, site.result.element, _dots(((len(x.shape) - 1,), (0,))))


@operation("einsum", "unary_einsum")
def einsum(site: OperationSite) -> Built:
    """An einsum equation of one or two operands."""
    equation = site.word("einsum_config")
    if len(site.operands) == 1:
        (x,) = site.tensors()
        return x.each([build.apply1("einsum", part, equation=equation) for part in x.parts])
    x, y = site.tensors()
    product: Product = lambda a, b, dtype: build.apply1(
        "einsum", build.cast(a, dtype), build.cast(b, dtype), equation=equation
    )
    return contracted(site, x, y, site.result.element, product)


# ---- convolutions
# --------------------------------------------------------------------------------------

NUMBERS = re.compile(r"\s*\[([^\[\]]*)\]\s*x\s*\[([^\[\]]*)\]\s*->\s*\[([^\[\]]*)\]\s*$")
LETTERS = "0123456789"


def layout(site: OperationSite) -> tuple[str, str, str]:
    """`[b, f, 0]x[o, i, 0]->[b, f, 0]` in xlac's letters: N batch, C channels, and digits for
    spatial axes.
    """
    given = site.get("dimension_numbers")
    match = NUMBERS.match(given.text) if isinstance(given, Raw) else None
    if match is None:
        site.fail("attribute 'dimension_numbers' is [..]x[..]->[..]")
    names = {"b": "N", "f": "C", "o": "O", "i": "I"}
    texts = []
    for group in match.groups():
        words = [word.strip() for word in group.split(",")]
        if any(word not in names and word not in LETTERS for word in words):
            site.fail(f"cannot read the axes [{group}]")
        texts.append("".join(names.get(word, word) for word in words))
    return texts[0], texts[1], texts[2]


@operation("convolution")
def convolution(site: OperationSite) -> Built:
    """`dimension_numbers`, strides, dilations, groups and padding as in xlac's conv."""
    axes = layout(site)
    low, high = site.pairs("padding", len(axes[0]) - 2)
    return convolved(site, axes, low, high)


def convolved(
    site: OperationSite, axes: tuple[str, str, str], low: tuple[int, ...], high: tuple[int, ...]
) -> TypedTensor:
    """A convolution with these dimension numbers, and padding `low` and `high`."""
    x, kernel = site.tensor(0), site.tensor(1)
    rank = len(axes[0]) - 2
    ones = (1,) * rank
    # xlac's attributes are ordered by the axes of x
    order = [int(letter) for letter in axes[0] if letter in LETTERS]

    def ordered(name: str) -> tuple[int, ...]:
        return permuted(site.integers(name, ones))

    def permuted(given: tuple[int, ...]) -> tuple[int, ...]:
        if len(given) != rank or sorted(order) != list(range(rank)):
            site.fail(f"its window does not fit {rank} spatial axes")
        return tuple(given[n] for n in order)

    given: dict[str, Any] = {
        "layout": axes,
        "strides": ordered("window_strides"),
        "low": permuted(low),
        "high": permuted(high),
        "lhs_dilation": ordered("lhs_dilation"),
        "rhs_dilation": ordered("rhs_dilation"),
        "feature_groups": site.integer("feature_group_count", 1),
        "batch_groups": site.integer("batch_group_count", 1),
    }
    flips = site.get("window_reversal") or [False] * rank
    if len(list(flips)) != rank:
        site.fail(f"'window_reversal' does not fit {rank} spatial axes")
    reversed_ = [axes[1].index(str(n)) for n, flag in enumerate(list(flips)) if flag]
    kernel = kernel.each([flipped(part, reversed_) for part in kernel.parts])

    def product(a: Node, b: Node, dtype: DType) -> Node:
        op = Conv(**given, out_dtype=dtype)
        depthwise = kernel_cotangent(op, a, b) if dtype.is_float else None
        return Node.of(op, a, b) if depthwise is None else build.cast(depthwise, dtype)

    return contracted(site, x, kernel, site.result.element, product)
