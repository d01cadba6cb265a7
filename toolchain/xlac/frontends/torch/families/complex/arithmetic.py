"""Arithmetic of complex numbers, and products of matrices."""

from __future__ import annotations

from typing import Any

from xlac.frontends.torch.complex_tensors import (
    ComplexTensor,
    Number,
    as_complex,
    aten_complex,
    real_of,
)
from xlac.frontends.torch.table import BUILDERS, AtenCall, Builder
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex import arithmetic, logarithm
from xlac.ops.complex.parts import Parts, hypot
from xlac_sdk.dtypes import DType


def spread(call: AtenCall, parts: Parts) -> ComplexTensor:
    """Parts in the type and shape of the result."""
    real, imaginary = (build.broadcast_to(build.cast(p, call.dtype), call.shape) for p in parts)
    return ComplexTensor(real, imaginary)


def product(x: Number, y: Number, dtype: DType) -> Parts:
    """x y; a real factor scales both parts, so that it makes no NaN of an infinity's zero part."""
    for one, other in ((x, y), (y, x)):
        factor = real_of(one, dtype)
        if factor is not None:
            a, b = as_complex(other, dtype).parts
            return build.mul(a, factor), build.mul(b, factor)
    return arithmetic.mul(as_complex(x, dtype).parts, as_complex(y, dtype).parts)


def quotient(x: Number, y: Number, dtype: DType) -> Parts:
    """x / y; a real divisor divides both parts."""
    divisor = real_of(y, dtype)
    if divisor is not None:
        a, b = as_complex(x, dtype).parts
        return build.div(a, divisor), build.div(b, divisor)
    over, under = as_complex(x, dtype), as_complex(y, dtype)
    shape = build.broadcast_shapes([over.shape, under.shape])
    over, under = (v.each(lambda part: build.broadcast_to(part, shape)) for v in (over, under))
    return arithmetic.div(over.parts, under.parts)


def total(call: AtenCall, x: Number, y: Number, alpha: Number, sign: float) -> ComplexTensor:
    """x + sign alpha y."""
    a, b = as_complex(x, call.dtype).parts
    c, d = product(y, alpha, call.dtype)
    join = build.add if sign > 0 else build.sub
    return spread(call, (join(a, c), join(b, d)))


@aten_complex("add.Tensor", "add.Scalar")
def add(call: AtenCall, x: Number, y: Number, alpha: Number = 1) -> ComplexTensor:
    """x + alpha y."""
    return total(call, x, y, alpha, 1.0)


@aten_complex("sub.Tensor", "sub.Scalar")
def sub(call: AtenCall, x: Number, y: Number, alpha: Number = 1) -> ComplexTensor:
    """x - alpha y."""
    return total(call, x, y, alpha, -1.0)


@aten_complex("rsub.Tensor", "rsub.Scalar")
def rsub(call: AtenCall, x: Number, y: Number, alpha: Number = 1) -> ComplexTensor:
    """y - alpha x."""
    return total(call, y, x, alpha, -1.0)


@aten_complex("mul.Tensor", "mul.Scalar")
def mul(call: AtenCall, x: Number, y: Number) -> ComplexTensor:
    """x y."""
    return spread(call, product(x, y, call.dtype))


@aten_complex("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(call: AtenCall, x: Number, y: Number) -> ComplexTensor:
    """x / y."""
    return spread(call, quotient(x, y, call.dtype))


@aten_complex("reciprocal")
def reciprocal(call: AtenCall, x: ComplexTensor) -> ComplexTensor:
    """1 / x."""
    return spread(call, quotient(1.0, x, call.dtype))


@aten_complex("addcmul")
def addcmul(call: AtenCall, x: Number, y: Number, z: Number, value: Number = 1) -> ComplexTensor:
    """x + value y z."""
    return total(call, x, ComplexTensor(*product(y, z, call.dtype)), value, 1.0)


@aten_complex("addcdiv")
def addcdiv(call: AtenCall, x: Number, y: Number, z: Number, value: Number = 1) -> ComplexTensor:
    """x + value y / z."""
    return total(call, x, ComplexTensor(*quotient(y, z, call.dtype)), value, 1.0)


@aten_complex("lerp.Tensor", "lerp.Scalar")
def lerp(call: AtenCall, x: Number, y: Number, weight: Number) -> ComplexTensor:
    """x + weight (y - x), or y - (1 - weight) (y - x) for weights of at least 1/2, as in
    PyTorch.
    """
    a, b, w = (spread(call, as_complex(v, call.dtype).parts).parts for v in (x, y, weight))
    whole, less = arithmetic.sub(b, a), (build.sub(1.0, w[0]), build.apply1("neg", w[1]))
    near = arithmetic.add(a, arithmetic.mul(w, whole))
    far = arithmetic.sub(b, arithmetic.mul(less, whole))
    small = build.compare(hypot(*w), "lt", 0.5)
    one, two = (build.select(small, *pair) for pair in zip(near, far, strict=True))
    return ComplexTensor(one, two)


@aten_complex("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(call: AtenCall, x: Number, y: Number) -> ComplexTensor:
    """x to the power of y; small whole powers by products."""
    if isinstance(y, int | float | complex) and y in (0, 1, 2, 3, -1, -2):
        whole = as_complex(x, call.dtype).parts
        if y == 0:
            return spread(call, as_complex(1.0, call.dtype).parts)
        held = whole
        for _ in range(abs(int(complex(y).real)) - 1):
            held = arithmetic.mul(held, whole)
        if complex(y).real < 0:
            held = quotient(1.0, ComplexTensor(*held), call.dtype)
        return spread(call, held)
    base, exponent = (spread(call, as_complex(v, call.dtype).parts).parts for v in (x, y))
    return ComplexTensor(*logarithm.power(base, exponent))


# ---- products of matrices


def _contracted(builder: Builder, call: AtenCall, x: Number, y: Number) -> Parts:
    a, b = as_complex(x, call.dtype).parts
    c, d = as_complex(y, call.dtype).parts
    return (
        build.sub(builder(call, a, c), builder(call, b, d)),
        build.add(builder(call, a, d), builder(call, b, c)),
    )


def _bilinear(name: str) -> None:
    @aten_complex(name)
    def contraction(call: AtenCall, x: Number, y: Number) -> ComplexTensor:
        """A product of vectors or matrices: four real ones."""
        return ComplexTensor(*_contracted(BUILDERS[f"aten.{name}.default"], call, x, y))


for _name in ("mm", "bmm", "mv", "dot", "matmul"):
    _bilinear(_name)


@aten_complex("vdot")
def vdot(call: AtenCall, x: ComplexTensor, y: Number) -> ComplexTensor:
    """The inner product, with the conjugate of x."""
    conjugate = ComplexTensor(x.real, build.apply1("neg", x.imaginary))
    return ComplexTensor(*_contracted(BUILDERS["aten.dot.default"], call, conjugate, y))


def _plus(call: AtenCall, base: Number, products: Parts, beta: Number, alpha: Number) -> Any:
    """beta base + alpha products; with beta 0 the base is not read."""
    scaled = product(ComplexTensor(*products), alpha, call.dtype)
    if beta == 0:
        return spread(call, scaled)
    first = product(as_complex(base, call.dtype), beta, call.dtype)
    return spread(call, arithmetic.add(first, scaled))


@aten_complex("addmm", "baddbmm", "addmv")
def addmm(
    call: AtenCall, x: Number, y: Number, z: Number, beta: Number = 1, alpha: Number = 1
) -> Any:
    """beta x + alpha y z."""
    rank = len(as_complex(z, call.dtype).shape)
    builder = BUILDERS[f"aten.{('mv', 'mm', 'bmm')[rank - 1]}.default"]
    return _plus(call, x, _contracted(builder, call, y, z), beta, alpha)


@aten_complex("addbmm")
def addbmm(
    call: AtenCall, x: Number, y: Number, z: Number, beta: Number = 1, alpha: Number = 1
) -> Any:
    """beta x + alpha times the sum of a batch of products."""

    def summed(call: AtenCall, a: Node, b: Node) -> Node:
        return build.dot(a, b, ((0, 2), (0, 1)), ((), ()), call.dtype)

    return _plus(call, x, _contracted(summed, call, y, z), beta, alpha)
