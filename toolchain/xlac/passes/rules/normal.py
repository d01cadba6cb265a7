"""Recognizes distribution functions written as formulas with factors in any order: the normal one,
x/2 (1 + erf(x / sqrt 2)), as gelu, and the logistic one, (1 + tanh u)/2, as used by the tanh
approximation of gelu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.scalar.arithmetic import Add, Div, Erf, Mul
from xlac.ops.scalar.native import GeluExact, Neg, Sigmoid, Tanh
from xlac.ops.scalar.special import Erfc
from xlac.passes.rewrite.rule import Example, Site, constant, rule
from xlac_sdk.dtypes import DType

FULL = (DType.F32, DType.F64)
ROUNDINGS = 2  # permitted error of a written sqrt 2, in units in the last place at 1
DEPTH = 3  # nesting of products: x, 1/2 and the sum


def erf(x: Node) -> Node:
    """The error function of x."""
    return Node.of(Erf(), x)


def erfc(x: Node) -> Node:
    """The complement of the error function of x."""
    return Node.of(Erfc(), x)


def tanh(x: Node) -> Node:
    """The hyperbolic tangent of x."""
    return Node.of(Tanh(), x)


def of_x(form: Callable[[Node], Node], dtype: DType = DType.F32) -> Example:
    """An example: a formula of one parameter."""
    return lambda p: form(p(60, dtype=dtype))


@rule(
    Mul,
    examples=[
        of_x(lambda x: build.mul(build.mul(x, 0.5), build.add(erf(build.mul(x, sqrt(0.5))), 1.0))),
        of_x(lambda x: build.mul(build.mul(x, build.add(erf(build.div(x, sqrt(2))), 1.0)), 0.5)),
        of_x(lambda x: build.mul(0.5, build.mul(build.add(1.0, erf(build.div(x, sqrt(2)))), x))),
        of_x(lambda x: build.mul(build.div(build.add(erf(build.mul(sqrt(0.5), x)), 1.0), 2.0), x)),
        of_x(lambda x: build.mul(x, build.add(build.mul(erf(build.mul(x, sqrt(0.5))), 0.5), 0.5))),
        of_x(lambda x: build.mul(build.mul(x, 0.5), erfc(build.mul(Node.of(Neg(), x), sqrt(0.5))))),
        of_x(lambda x: build.mul(build.mul(erfc(build.div(x, -sqrt(2))), x), 0.5), DType.F64),
    ],
    sharpens=True,
)
def gelu_by_hand(node: Node, site: Site) -> Node | None:
    """x Phi(x) becomes gelu: the formula cancels for negative x and has no correct digit below
    -5.
    """
    if node.type.dtype not in FULL:
        return None
    for part in _parts(node, DEPTH):
        x, times = _distribution(part) or (None, 0.0)
        if x is not None:
            factors, number = _factors(node, (x, part), DEPTH)
            if len(factors) == 2 and x in factors and part in factors and number * times == 1.0:
                return site.make(GeluExact(), x)
    return None


@rule(
    Mul,
    examples=[
        of_x(lambda x: build.mul(build.mul(x, 0.5), build.add(tanh(build.mul(x, 0.8)), 1.0))),
        of_x(lambda x: build.mul(0.5, build.mul(x, build.add(1.0, tanh(x))))),
        of_x(lambda x: build.mul(x, build.add(build.mul(tanh(x), 0.5), 0.5)), DType.F64),
        of_x(lambda x: build.mul(build.add(tanh(x), 1.0), 0.5)),
    ],
    sharpens=True,
)
def sigmoid_by_tanh(node: Node, site: Site) -> Node | None:
    """(1 + tanh u)/2 becomes sigmoid(2 u), which does not cancel for negative u."""
    if node.type.dtype not in FULL:
        return None
    for part in _parts(node, DEPTH):
        u, times = _one_and(part, Tanh) or (None, 0.0)
        if u is not None:
            factors, number = _factors(node, (part,), DEPTH)
            if factors.count(part) == 1 and 2.0 * number * times == 1.0:
                factors.remove(part)
                rewritten = site.make(Sigmoid(), site.make(Add(), u, u))
                for other in factors:
                    rewritten = site.make(Mul(), other, rewritten)
                return rewritten
    return None


def _parts(node: Node, depth: int) -> Iterator[Node]:
    """The sums and functions among the factors of a product."""
    if isinstance(node.op, Add | Erfc):
        yield node
    elif isinstance(node.op, Mul | Div) and depth:
        for i in node.inputs:
            yield from _parts(i, depth - 1)


def _distribution(node: Node) -> tuple[Node, float] | None:
    """(x, k) where a node is k times the normal distribution function of x; otherwise None."""
    if isinstance(node.op, Erfc):
        x = _divided(node.inputs[0], -sqrt(2))
        return None if x is None else (x, 2.0)
    inner, times = _one_and(node, Erf) or (None, 0.0)
    x = None if inner is None else _divided(inner, sqrt(2))
    return None if x is None else (x, 2.0 * times)


def _one_and(node: Node, function: type[Op]) -> tuple[Node, float] | None:
    """(u, k) where a node is k (1 + f(u)), or k + k f(u); otherwise None."""
    if not isinstance(node.op, Add):
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        number = constant(other)
        if number is not None:
            (factor, *rest), times = _factors(one, (), 1)
            if not rest and isinstance(factor.op, function) and times == float(number):
                return factor.inputs[0], times
    return None


def _divided(node: Node, divisor: float) -> Node | None:
    """The dividend where a node is a quotient by this number, up to rounding; otherwise None."""
    factor = 1.0
    while abs(factor * divisor - 1.0) > ROUNDINGS * float(np.finfo(node.type.dtype.numpy).eps):
        match node.op, [constant(i) for i in node.inputs]:
            case Neg(), _:
                factor, node = -factor, node.inputs[0]
            case Mul(), [_, number] if number is not None:
                factor, node = factor * float(number), node.inputs[0]
            case Mul(), [number, _] if number is not None:
                factor, node = factor * float(number), node.inputs[1]
            case Div(), [_, number] if number is not None and number != 0:
                factor, node = factor / float(number), node.inputs[0]
            case _:
                return None
    return node


def _factors(node: Node, whole: tuple[Node, ...], depth: int) -> tuple[list[Node], float]:
    """The factors of a product, and the constant among them; `whole` ones are not looked into, nor
    products without a constant or one of these.
    """
    number = constant(node)
    if number is not None and node not in whole:
        return [], float(number)
    if node in whole or not depth or not isinstance(node.op, Mul | Div):
        return [node], 1.0
    (left, one), (right, other) = (_factors(i, whole, depth - 1) for i in node.inputs)
    if isinstance(node.op, Mul):
        apart = one * other != 1.0 or any(part in whole for part in left + right)
        return (left + right, one * other) if apart else ([node], 1.0)
    return (left, one / other) if not right and other else ([node], 1.0)


NORMAL = (gelu_by_hand, sigmoid_by_tanh)
