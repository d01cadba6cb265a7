"""Complex numbers as two tensors, or as one tensor with an axis of two parts.

A `Number` is a pair of nodes, the real and the imaginary part; None is a part of zeros.
"""

from __future__ import annotations

from collections.abc import Callable

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

Number = tuple[Node | None, Node | None]


def plus(a: Number, b: Number) -> Number:
    """a + b."""
    return total(a[0], b[0]), total(a[1], b[1])


def minus(a: Number, b: Number) -> Number:
    """a - b."""
    return difference(a[0], b[0]), difference(a[1], b[1])


def scaled(a: Number, factor: float) -> Number:
    """a times a real number."""
    return _scaled(a[0], factor), _scaled(a[1], factor)


def times_i(a: Number, sign: int = 1) -> Number:
    """a times i, or -i."""
    real, imaginary = a
    return (negated(imaginary), real) if sign > 0 else (imaginary, negated(real))


def multiplied(a: Number, factor: Array) -> Number:
    """a times complex constants, an array that broadcasts to it."""
    real, imaginary = a
    cosine, sine = (build.constant(t, dtype_of(a)) for t in (factor.real, factor.imag))
    return (
        difference(_product(real, cosine), _product(imaginary, sine)),
        total(_product(real, sine), _product(imaginary, cosine)),
    )


def total(a: Node | None, b: Node | None) -> Node | None:
    """The sum of two parts."""
    return a if b is None else b if a is None else build.add(a, b)


def difference(a: Node | None, b: Node | None) -> Node | None:
    """The difference of two parts."""
    return a if b is None else negated(b) if a is None else build.sub(a, b)


def _product(a: Node | None, b: Node) -> Node | None:
    return None if a is None else build.mul(a, b)


def _scaled(a: Node | None, factor: float) -> Node | None:
    return a if a is None or factor == 1 else build.mul(a, factor)


def negated(a: Node | None) -> Node | None:
    """A part with the other sign."""
    return None if a is None else build.apply1("neg", a)


# ---- tensors -------------------------------------------------------------------------------------


def each(x: Number, function: Callable[[Node], Node]) -> Number:
    """The number with a function applied to its parts."""
    real, imaginary = (None if part is None else function(part) for part in x)
    return real, imaginary


def whole(x: Number) -> tuple[Node, Node]:
    """Both parts, with zeros for one that is None."""
    zeros = build.like(0.0, given(x))
    real, imaginary = (zeros if part is None else part for part in x)
    return real, imaginary


def given(x: Number) -> Node:
    """A part that is not None; they have one type."""
    return next(part for part in x if part is not None)


def shape_of(x: Number) -> tuple[Dim, ...]:
    """The shape of each part."""
    return given(x).shape


def dtype_of(x: Number) -> DType:
    """The element type of each part."""
    return given(x).type.dtype


def parts_of(x: Node, axis: int) -> tuple[Node, Node]:
    """The two slices along an axis of size 2, which is removed."""
    shape: tuple[Dim, ...] = (*x.shape[:axis], *x.shape[axis + 1 :])
    real, imaginary = (build.reshape(build.cut(x, axis, n, n + 1), shape) for n in (0, 1))
    return real, imaginary


def stacked(real: Node, imaginary: Node, axis: int) -> Node:
    """Two tensors along a new axis."""
    return build.apply1("stack", real, imaginary, axis=axis)
