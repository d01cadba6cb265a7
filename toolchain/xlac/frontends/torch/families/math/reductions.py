"""Reductions and cumulative operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build
from xlac_sdk.dtypes import DType

Dims = Sequence[int] | int | None


def axes_of(x: Node, dim: Dims) -> tuple[int, ...]:
    """Axes by PyTorch's rules: None or an empty list is all of them; a scalar is taken to have an
    axis 0.
    """
    if dim is None or (not isinstance(dim, int) and not dim):
        return tuple(range(x.type.rank))
    many = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted(normal_axis(d, x.type.rank) for d in many)) if x.shape else ()


def reduced(x: Node, combine: str, dim: Dims, keepdim: bool = False) -> Node:
    """A reduction over `dim` (all axes if empty or None); a scalar is unchanged."""
    axes = axes_of(x, dim)
    return build.reduce(x, combine, axes, keepdim) if axes else x


@aten("sum.dim_IntList")
def sum_dim(
    call: AtenCall, x: Node, dim: Dims, keepdim: bool = False, dtype: DType | None = None
) -> Node:
    """The sum over `dim`, or over all axes if it is empty. Summed in the result's dtype."""
    return reduced(build.cast(x, call.dtype), "add", dim, keepdim)


@aten("sum")
def sum_all(call: AtenCall, x: Node, dtype: DType | None = None) -> Node:
    """The sum of all elements."""
    return sum_dim(call, x, None)


@aten("mean.dim")
def mean_dim(
    call: AtenCall, x: Node, dim: Dims, keepdim: bool = False, dtype: DType | None = None
) -> Node:
    """The mean over `dim`."""
    axes = axes_of(x, dim)
    wide = build.cast(x, call.dtype)
    return build.apply1("mean", wide, axis=axes, keepdims=keepdim) if axes else wide


@aten("mean")
def mean_all(call: AtenCall, x: Node, dtype: DType | None = None) -> Node:
    """The mean of all elements."""
    return mean_dim(call, x, None)


@aten("prod")
def prod_all(call: AtenCall, x: Node, dtype: DType | None = None) -> Node:
    """The product of all elements."""
    return reduced(build.cast(x, call.dtype), "mul", None)


@aten("prod.dim_int")
def prod_dim(
    call: AtenCall, x: Node, dim: int, keepdim: bool = False, dtype: DType | None = None
) -> Node:
    """The product over one axis."""
    return reduced(build.cast(x, call.dtype), "mul", dim, keepdim)


def extreme(x: Node, combine: str, dim: Dims, keepdim: bool = False) -> Node:
    """The maximum or minimum; for bools `or` or `and`."""
    if x.type.dtype is DType.BOOL:
        combine = "or" if combine == "max" else "and"
    return reduced(x, combine, dim, keepdim)


@aten("amax")
def amax(call: AtenCall, x: Node, dim: Dims = (), keepdim: bool = False) -> Node:
    """The maximum over `dim`, by default over all; NaN if any element is NaN."""
    return extreme(x, "max", dim, keepdim)


@aten("amin")
def amin(call: AtenCall, x: Node, dim: Dims = (), keepdim: bool = False) -> Node:
    """The minimum over `dim`, by default over all; NaN if any element is NaN."""
    return extreme(x, "min", dim, keepdim)


@aten("max")
def max_all(call: AtenCall, x: Node) -> Node:
    """The largest of all elements."""
    return extreme(x, "max", None)


@aten("min")
def min_all(call: AtenCall, x: Node) -> Node:
    """The smallest of all elements."""
    return extreme(x, "min", None)


@aten("max.dim")
def max_dim(call: AtenCall, x: Node, dim: int, keepdim: bool = False) -> tuple[Node, Node]:
    """The maximum along an axis, and its first index."""
    return extreme(x, "max", dim, keepdim), position(x, "argmax", dim, keepdim)


@aten("min.dim")
def min_dim(call: AtenCall, x: Node, dim: int, keepdim: bool = False) -> tuple[Node, Node]:
    """The minimum along an axis, and its first index."""
    return extreme(x, "min", dim, keepdim), position(x, "argmin", dim, keepdim)


def position(x: Node, mnemonic: str, dim: int | None, keepdim: bool) -> Node:
    """The index by argmax or argmin; into the flattened tensor if there is no `dim`."""
    if not x.shape:
        return build.constant(0, DType.I64)
    wide = build.cast(x, DType.U8) if x.type.dtype is DType.BOOL else x
    return build.apply1(mnemonic, wide, axis=dim, keepdims=keepdim)


@aten("argmax")
def argmax(call: AtenCall, x: Node, dim: int | None = None, keepdim: bool = False) -> Node:
    """The first index of the maximum, along an axis or in row-major order."""
    return position(x, "argmax", dim, keepdim)


@aten("argmin")
def argmin(call: AtenCall, x: Node, dim: int | None = None, keepdim: bool = False) -> Node:
    """The first index of the minimum, along an axis or in row-major order."""
    return position(x, "argmin", dim, keepdim)


@aten("any", "any.dim", "any.dims")
def any_(call: AtenCall, x: Node, dim: Dims = None, keepdim: bool = False) -> Node:
    """Whether any element is not zero."""
    return _truth(call, x, "or", dim, keepdim)


@aten("all", "all.dim", "all.dims")
def all_(call: AtenCall, x: Node, dim: Dims = None, keepdim: bool = False) -> Node:
    """Whether no element is zero."""
    return _truth(call, x, "and", dim, keepdim)


def _truth(call: AtenCall, x: Node, combine: str, dim: Dims, keepdim: bool) -> Node:
    test = build.cast(x, DType.BOOL)
    # an empty list of axes means no reduction
    none = dim is not None and not isinstance(dim, int) and not dim
    return build.cast(test if none else reduced(test, combine, dim, keepdim), call.dtype)


def spread_of(
    call: AtenCall, x: Node, dim: Dims, correction: float, keepdim: bool
) -> tuple[Node, Node]:
    """Variance and mean in the compute type."""
    wide = build.compute(x)
    axes = axes_of(x, dim)
    count = call.size(volume(tuple(x.shape[a] for a in axes)))
    size = build.cast(count, wide.type.dtype)
    middle = build.div(reduced(wide, "add", axes, True), size) if axes else wide
    gap = build.sub(wide, middle)
    squares = build.mul(gap, gap)
    total = build.reduce(squares, "add", axes, keepdim) if axes else squares
    variance = build.div(total, build.maximum(build.sub(size, float(correction)), 0.0))
    if not keepdim and axes:
        middle = build.reshape(middle, [d for a, d in enumerate(x.shape) if a not in axes])
    return variance, middle


@aten("var.correction")
def var(
    call: AtenCall,
    x: Node,
    dim: Dims = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> Node:
    """The variance: the sum of squares divided by the number of elements minus `correction`
    (default 1).
    """
    return build.cast(
        spread_of(call, x, dim, 1 if correction is None else correction, keepdim)[0], call.dtype
    )


@aten("var.dim")
def var_dim(
    call: AtenCall, x: Node, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> Node:
    """The variance; `unbiased` means a correction of 1."""
    return build.cast(spread_of(call, x, dim, int(unbiased), keepdim)[0], call.dtype)


@aten("var_mean.correction")
def var_mean(
    call: AtenCall,
    x: Node,
    dim: Dims = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Node, ...]:
    """The variance, as in `var`, and the mean."""
    statistics = spread_of(call, x, dim, 1 if correction is None else correction, keepdim)
    return tuple(build.cast(f, call.dtype) for f in statistics)


@aten("cumsum")
def cumsum(call: AtenCall, x: Node, dim: int, dtype: DType | None = None) -> Node:
    """The running sum along an axis."""
    return running(call, "cumsum", x, dim)


@aten("cumprod")
def cumprod(call: AtenCall, x: Node, dim: int, dtype: DType | None = None) -> Node:
    """The running product along an axis."""
    return running(call, "cumprod", x, dim)


def running(call: AtenCall, mnemonic: str, x: Node, dim: int) -> Node:
    """A cumulative operation along an axis, in the result's element type; a scalar is unchanged."""
    wide = build.cast(x, call.dtype)
    return build.apply1(mnemonic, wide, axis=dim) if x.shape else wide


@aten("logsumexp")
def logsumexp(call: AtenCall, x: Node, dim: Dims, keepdim: bool = False) -> Node:
    """log(sum(exp(x))), shifted by the maximum so that it does not overflow."""
    wide = build.cast(x, call.dtype)
    axes = axes_of(x, dim)
    return build.apply1("logsumexp", wide, axis=axes, keepdims=keepdim) if axes else wide


@aten("linalg_vector_norm")
def vector_norm(
    call: AtenCall,
    x: Node,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Node:
    """The root of order `ord` of the sum of as high powers of magnitudes; of 0 the number that are
    not 0, of infinities the greatest or the least. Where it is 0 its gradient is.
    """
    wide = build.compute(build.cast(x, call.dtype))
    if ord == 2 and axes_of(x, dim):
        norm = build.apply1("norm", wide, axis=axes_of(x, dim), keepdims=keepdim)
        return build.cast(norm, call.dtype)
    sizes = build.apply1("abs", wide)
    zero = build.compare(sizes, "eq", 0.0)
    if abs(ord) == math.inf:
        norm = reduced(sizes, "max" if ord > 0 else "min", dim, keepdim)
    elif ord == 0:
        there = build.cast(build.apply1("not", zero), wide.type.dtype)
        norm = reduced(there, "add", dim, keepdim)
    elif ord == 1:
        norm = reduced(sizes, "add", dim, keepdim)
    else:
        powers = build.apply1("pow", build.select(zero, 1.0, sizes), build.like(float(ord), sizes))
        powers = build.select(zero, 0.0 if ord > 0 else math.inf, powers)
        total = reduced(powers, "add", dim, keepdim)
        none = build.compare(total, "eq", 0.0)
        root = build.like(1 / ord, total)
        norm = build.apply1("pow", build.select(none, 1.0, total), root)
        norm = build.select(none, 0.0 if ord > 0 else math.inf, norm)
    return build.cast(norm, call.dtype)
