"""How errors of operands propagate through scalar operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from xlac.debug.errors.approximation import Approximation, exact
from xlac.ir.graph import Node
from xlac.ir.op import Array, Op, attributes
from xlac_sdk.dtypes import DType

Inputs = Sequence[Approximation]
Propagates = Callable[[Node, Inputs, Array], Array]
"""The error caused by errors of the operands, given the exact result."""


def _sum(node: Node, inputs: Inputs, value: Array) -> Array:
    return np.asarray(inputs[0].bound + inputs[1].bound)


def _largest(node: Node, inputs: Inputs, value: Array) -> Array:
    return np.asarray(np.maximum(inputs[0].bound, inputs[1].bound))


def _share(a: Array, e: Array, b: Array) -> Array:
    """|a| e, the error of a product by an error e of b. Where a is infinite the product stays
    infinite, unless b may be 0.
    """
    error = np.where(e == 0, 0.0, np.abs(a) * e)
    return np.where(np.isinf(a) & (e < np.abs(b)), 0.0, error)


def _product(node: Node, inputs: Inputs, value: Array) -> Array:
    (a, b), (ea, eb) = (i.value for i in inputs), (i.bound for i in inputs)
    return np.asarray(_share(a, eb, b) + _share(b, ea, a) + np.where(eb == 0, 0.0, ea * eb))


def _quotient(node: Node, inputs: Inputs, value: Array) -> Array:
    (_, b), (ea, eb) = (i.value for i in inputs), (i.bound for i in inputs)
    if not node.type.dtype.is_float:
        return _any(node, inputs, value)
    room = np.abs(b) - eb
    error = (ea + np.where(eb == 0, 0.0, np.abs(value) * eb)) / room
    return np.where((ea == 0) & (eb == 0), 0.0, np.where(room > 0, error, np.inf))


def _corners(node: Node, inputs: Inputs, value: Array) -> Array:
    """For a function that is monotone in each operand: its extremes are at the corners of the
    intervals.
    """
    error = np.zeros(value.shape)
    for signs in product((-1.0, 1.0), repeat=len(inputs)):
        at = [i.value + s * i.bound for i, s in zip(inputs, signs, strict=True)]
        apart = np.abs(_floats(node.op, at) - value)
        error = np.maximum(error, np.where(np.isnan(apart), np.inf, apart))
    return np.where(_touched(inputs), error, 0.0)


def _wave(node: Node, inputs: Inputs, value: Array) -> Array:
    return np.asarray(np.minimum(inputs[0].bound, 2.0))


def _not_monotone(node: Node, inputs: Inputs, value: Array) -> Array:
    """gelu has a minimum of -0.17 at -0.7518, between corners; its slope is below 1.13."""
    return np.asarray(1.13 * inputs[0].bound)


def _power(node: Node, inputs: Inputs, value: Array) -> Array:
    x, y = inputs
    if not node.type.dtype.is_float:
        return _any(node, inputs, value)
    error = _corners(node, inputs, value)
    below = x.value - x.bound <= 0
    whole = (y.error is None) and bool((np.floor(y.value) == y.value).all())
    if whole:  # the extremes of integer powers are at the ends of the interval, or at 0
        crosses = (np.abs(x.value) <= x.bound) & (x.bound > 0)
        error = np.where(crosses & (y.value < 0), np.inf, error)
        return np.where(crosses & (y.value > 0), np.maximum(error, np.abs(value)), error)
    return np.where(below & _touched(inputs), np.inf, error)


def _angle(node: Node, inputs: Inputs, value: Array) -> Array:
    y, x = inputs
    around = (np.abs(y.value) <= y.bound) & (x.value - x.bound <= 0)
    error = _corners(node, inputs, value)
    return np.where(around & _touched(inputs), 2 * np.pi, error)


def _compared(node: Node, inputs: Inputs, value: Array) -> Array:
    a, b = inputs
    room = a.bound + b.bound
    with np.errstate(all="ignore"):
        near = np.abs(a.value.astype(np.float64) - b.value.astype(np.float64)) <= room
    unsure = (room > 0) & (near | np.isinf(room))
    return np.asarray(unsure, np.float64)


def _selected(node: Node, inputs: Inputs, value: Array) -> Array:
    which, a, b = inputs
    kept = np.where(which.value, a.bound, b.bound)
    if which.error is None:
        return kept
    with np.errstate(all="ignore"):
        apart = np.abs(a.value.astype(np.float64) - b.value.astype(np.float64))
    apart = np.where(a.value == b.value, 0.0, apart)
    either = apart + np.maximum(a.bound, b.bound)
    return np.where(which.error > 0, either, kept)


def _cast(node: Node, inputs: Inputs, value: Array) -> Array:
    (x,) = inputs
    if node.type.dtype.is_float or node.type.dtype is node.inputs[0].type.dtype:
        return x.bound
    if node.type.dtype is DType.BOOL:
        return ((np.abs(x.value) <= x.bound) & (x.bound > 0)).astype(np.float64)
    return np.where(x.bound > 0, np.ceil(x.bound), 0.0)


def _any(node: Node, inputs: Inputs, value: Array) -> Array:
    """Any bits may result where an operand has an error."""
    worst = 1.0 if node.type.dtype is DType.BOOL else np.inf
    return np.where(_touched(inputs), worst, 0.0)


def _floats(op: Op, arrays: Sequence[Array]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(op.evaluate(*arrays), np.float64)


def _touched(inputs: Inputs) -> Array:
    touched: Array = inputs[0].bound > 0
    for other in inputs[1:]:
        touched = touched | (other.bound > 0)
    return touched


SCALAR: dict[str, Propagates] = {
    **dict.fromkeys(("add", "sub"), _sum),
    **dict.fromkeys(("max", "min"), _largest),
    **dict.fromkeys(("neg", "abs"), lambda node, inputs, value: inputs[0].bound),
    "mul": _product,
    "div": _quotient,
    **dict.fromkeys(
        (
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log1p",
            "sqrt",
            "rsqrt",
            "erf",
            "tanh",
            "sigmoid",
            "floor",
            "ceil",
            "trunc",
            "round",
        ),
        _corners,
    ),
    **dict.fromkeys(("sin", "cos"), _wave),
    "gelu_exact": _not_monotone,
    "pow": _power,
    "atan2": _angle,
    "compare": _compared,
    "select": _selected,
    "cast": _cast,
    **dict.fromkeys(
        ("rem", "and", "or", "xor", "not", "shl", "shr", "popcnt", "clz", "bitcast"), _any
    ),
}
"""Propagation by mnemonic."""

OF_NAN = frozenset(SCALAR) - {"select", "compare"}
"""Functions that are NaN where an operand is."""


def spread(node: Node, inputs: Inputs, value: Array) -> Array | None:
    """The error of a scalar operation's result that is caused by its operands' errors."""
    if exact(inputs):
        return None
    if node.op.mnemonic == "bitcast" and attributes(node.op):
        shape = value.shape
        touched = any(bool(i.bound.any()) for i in inputs)
        return np.full(shape, np.inf) if touched else None
    with np.errstate(all="ignore"):
        error = np.broadcast_to(SCALAR[node.op.mnemonic](node, inputs, value), value.shape)
    if node.op.mnemonic in OF_NAN and node.type.dtype.is_float:
        for x in inputs:  # an infinite error includes NaN
            error = np.where(np.isinf(x.bound), np.inf, error)
    return np.asarray(error)
