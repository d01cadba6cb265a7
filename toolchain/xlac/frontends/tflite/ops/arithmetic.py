"""Element-wise arithmetic, comparisons, logic and bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.ops import integer_arithmetic
from xlac.frontends.tflite.registry import operator
from xlac.frontends.tflite.stored_integers import SIGNED, quotient, stored
from xlac.frontends.tflite.stored_integers import compared as compared_integers
from xlac.frontends.tflite.word_tables import tabulated
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

Kinds = frozenset[DType]

_UNARY = {
    "CEIL": "ceil",
    "COS": "cos",
    "FLOOR": "floor",
    "ROUND": "round",
    "SIGN": "sign",
    "SIN": "sin",
    "SQUARE": "square",
}
_ACTIVATED: dict[str, tuple[str, str, Callable[[TFLiteCall], Node | None]]] = {
    "ADD": ("add", "AddOptions", lambda call: integer_arithmetic.added(call, 1)),
    "SUB": ("sub", "SubOptions", lambda call: integer_arithmetic.added(call, -1)),
    "MUL": ("mul", "MulOptions", integer_arithmetic.product),
}
_COMPARISONS = {
    "EQUAL": "eq",
    "NOT_EQUAL": "ne",
    "LESS": "lt",
    "LESS_EQUAL": "le",
    "GREATER": "gt",
    "GREATER_EQUAL": "ge",
}
_LOGIC = {"LOGICAL_AND": "and", "LOGICAL_OR": "or", "BITWISE_XOR": "xor", "RIGHT_SHIFT": "shr"}


def _unary(name: str, mnemonic: str, kinds: Kinds = frozenset()) -> None:
    @operator(name)
    def unary(call: TFLiteCall) -> Node:
        return _applied(call, mnemonic, kinds, 1)


def _binary(name: str, mnemonic: str, kinds: Kinds = frozenset()) -> None:
    @operator(name)
    def binary(call: TFLiteCall) -> Node:
        return _applied(call, mnemonic, kinds, 2)


def _applied(call: TFLiteCall, mnemonic: str, kinds: Kinds, count: int) -> Node:
    """An operation of `count` operands, of integers as they are stored where they are of these
    types, else of real numbers.
    """
    operands = stored(call, kinds, count)
    if operands is not None and call.out().dtype is operands[0].type.dtype:
        return build.apply1(mnemonic, *operands)
    return call.give(build.apply1(mnemonic, *(call.real(n) for n in range(count))))


def _activated(
    name: str, mnemonic: str, options: str, of_integers: Callable[[TFLiteCall], Node | None]
) -> None:
    @operator(name, options)
    def activated(call: TFLiteCall) -> Node:
        result = of_integers(call)
        if result is not None:
            return result
        return call.give(call.activated(build.apply1(mnemonic, call.real(0), call.real(1))))


def _comparison(name: str, direction: str) -> None:
    @operator(name)
    def compared(call: TFLiteCall) -> Node:
        result = compared_integers(call, direction)
        return build.compare(call.real(0), direction, call.real(1)) if result is None else result


def _logical(name: str, mnemonic: str) -> None:
    @operator(name)
    def logical(call: TFLiteCall) -> Node:
        return build.apply1(mnemonic, call[0], call[1])


for _name, _mnemonic in _UNARY.items():
    _unary(_name, _mnemonic)
_unary("NEG", "neg", SIGNED)
for _name, (_mnemonic, _options, _of_integers) in _ACTIVATED.items():
    _activated(_name, _mnemonic, _options, _of_integers)
_binary("MAXIMUM", "max", SIGNED | {DType.U8})
_binary("MINIMUM", "min", SIGNED | {DType.U8})
_binary("FLOOR_MOD", "mod", SIGNED)
_binary("ATAN2", "atan2")
for _name, _direction in _COMPARISONS.items():
    _comparison(_name, _direction)
for _name, _mnemonic in _LOGIC.items():
    _logical(_name, _mnemonic)


def _tabulated(name: str, mnemonic: str, function: Callable[[Array], Array]) -> None:
    @operator(name)
    def by_table(call: TFLiteCall) -> Node:
        result = tabulated(call, function)
        return call.give(build.apply1(mnemonic, call.real(0))) if result is None else result


_tabulated("EXP", "exp", np.exp)
_tabulated("LOG", "log", np.log)


@operator("ABS")
def absolute(call: TFLiteCall) -> Node:
    """The absolute value."""
    result = integer_arithmetic.absolute(call)
    return call.give(build.apply1("abs", call.real(0))) if result is None else result


@operator("RSQRT")
def rsqrt(call: TFLiteCall) -> Node:
    """1 / sqrt(x)."""
    result = integer_arithmetic.rsqrt(call)
    return call.give(build.apply1("rsqrt", call.real(0))) if result is None else result


@operator("SQRT")
def square_root(call: TFLiteCall) -> Node:
    """The square root."""
    result = integer_arithmetic.square_root(call)
    return call.give(build.apply1("sqrt", call.real(0))) if result is None else result


@operator("LOGICAL_NOT")
def logical_not(call: TFLiteCall) -> Node:
    """Whether an element is false."""
    return build.apply1("logical_not", call[0])


@operator("DIV", "DivOptions")
def divide(call: TFLiteCall) -> Node:
    """x / y; integers truncate."""
    return call.give(call.activated(build.div(call.real(0), call.real(1))))


@operator("FLOOR_DIV")
def floor_divide(call: TFLiteCall) -> Node:
    """The greatest integer that is not above x / y. Where the quotient of floats is rounded up to
    an integer, the remainder is nearly y.
    """
    operands = stored(call, SIGNED, 2)
    if operands is not None and call.out().dtype is operands[0].type.dtype:
        return quotient(*operands)
    x, y = (build.compute(call.real(n)) for n in range(2))
    if not x.type.dtype.is_float:
        return call.give(build.apply1("floor_divide", x, y))
    exact = build.div(x, y)
    below = build.apply1("floor", exact)
    rest, half = build.apply1("abs", build.apply1("mod", x, y)), build.apply1("abs", y)
    rounded_up = build.apply1(
        "and", build.compare(exact, "eq", below), build.compare(rest, "gt", build.mul(half, 0.5))
    )
    return call.give(build.select(rounded_up, build.sub(below, 1.0), below))


@operator("POW")
def power(call: TFLiteCall) -> Node:
    """x to the power y."""
    return call.give(build.apply1("pow", call.real(0), call.real(1)))


@operator("SQUARED_DIFFERENCE")
def squared_difference(call: TFLiteCall) -> Node:
    """(x - y)²."""
    result = integer_arithmetic.squared_difference(call)
    if result is not None:
        return result
    return call.give(build.apply1("square", build.sub(call.real(0), call.real(1))))


@operator("ADD_N")
def add_many(call: TFLiteCall) -> Node:
    """The sum of tensors of one shape."""
    return call.give(reduce(build.add, (call.real(n) for n in range(len(call)))))


def _selected(name: str) -> None:
    @operator(name)
    def selected(call: TFLiteCall) -> Node:
        test, taken = call[0], stored(call, SIGNED | {DType.U8}, 2, first=1)
        same = taken is not None and call.out().dtype is taken[0].type.dtype
        x, y = taken if taken is not None and same else (call.real(1), call.real(2))
        if name == "SELECT" and test.type.rank == 1 and x.type.rank > 1:
            test = build.along(test, 0, x.type.rank)
        chosen = build.select(test, x, y)
        return chosen if same else call.give(chosen)


_selected("SELECT")
_selected("SELECT_V2")


@operator("CAST", "CastOptions")
def cast(call: TFLiteCall) -> Node:
    """The numbers in another type; floats truncate to integers, and saturate."""
    return build.cast(call[0], call.dtype())


@operator("BITCAST")
def bitcast(call: TFLiteCall) -> Node:
    """The same bits in another type of the same width."""
    x, wanted = call[0], call.dtype()
    if x.type.dtype.bits != wanted.bits or DType.BOOL in (x.type.dtype, wanted):
        call.fail(f"bits of {x.type.dtype} as {wanted}: both must have one width, and not be bool")
    return x if x.type.dtype is wanted else build.apply1("bitcast", x, dtype=wanted)
