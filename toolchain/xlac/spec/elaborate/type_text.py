"""Parses types and sizes as specs write them: `f32[batch, 4]`."""

from __future__ import annotations

import ast
import re
from typing import Any

from xlac.ir.dims import Dim, Sym
from xlac.ir.types import Type
from xlac.spec.elaborate.arithmetic import Constants, compute, shown_value
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.text.expression import Parsed, parse
from xlac.spec.text.grammar import Malformed
from xlac_sdk.dtypes import DType

_TYPE = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*(?:\[(.*)\]\s*)?", re.DOTALL)


_LATER = {"f8e4m3", "f8e5m2", "i4", "u4", "c64", "c128", "complex64", "complex128"}


_ALIASES = {
    "float32": "f32", "float": "f32", "float64": "f64", "double": "f64", "float16": "f16",
    "half": "f16", "bfloat16": "bf16", "int8": "i8", "int16": "i16", "int32": "i32", "int": "i32",
    "int64": "i64", "long": "i64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "boolean": "bool",
}  # fmt: skip


def dtype_value(name: str, place: Place, offset: int = 0) -> DType:
    """An element type by name. Raises Fault."""
    try:
        return DType(name)
    except ValueError:
        span = place.inside(offset, len(name))
        if name in _LATER:
            raise Fault("XL1018", f"element type {name} is not supported yet", span) from None
        hint = (
            f"did you mean '{_ALIASES[name]}'?"
            if name in _ALIASES
            else nearest(name, [d.value for d in DType])
        )
        raise Fault("XL1018", f"unknown element type {name!r}", span, hint) from None


def type_value(text: str, constants: Constants, place: Place) -> Type:
    """A type such as `f32[batch, $width]`. Raises Fault."""
    dtype, dims, offset = type_parts(text, constants, place)
    if dims is None:
        return Type(dtype, ())
    shape: list[Dim] = []
    for node in dims[1]:
        if isinstance(node, ast.Starred):
            raise Fault(
                "XL1018",
                "'*' stands for any shape only in the declaration of an operation",
                place.inside(offset + dims[0].place(node)[0], 1),
            )
        shape.append(extent(dims[0], node, constants, place, offset))
    return Type(dtype, tuple(shape))


def type_parts(
    text: str, constants: Constants, place: Place
) -> tuple[DType, tuple[Parsed, list[ast.expr]] | None, int]:
    """A type's element type, the expression trees of its extents, and their offsets in the text."""
    if not (match := _TYPE.fullmatch(text)):
        raise Fault(
            "XL1018", f"{text!r} is not a type", place.span, "a type is written f32[batch, 64]"
        )
    name = match[1]
    if name.startswith("$"):
        name = str(constants.param(name[1:], place, match.start(1), len(name)))
    dtype = dtype_value(name, place, match.start(1))
    if match[2] is None or not match[2].strip():
        return dtype, None, 0
    offset = match.start(2) - 1
    try:
        expression = parse("[" + match[2] + "]")
    except Malformed as error:
        raise Fault(
            "XL1018",
            f"the sizes of {text!r} cannot be read: {error}",
            place.inside(min(offset + error.offset, len(text) - 1), error.width),
            error.hint,
        ) from None
    if not isinstance(expression.tree, ast.List):
        raise Fault(
            "XL1018", f"{text!r} is not a type", place.span, "a type is written f32[batch, 64]"
        )
    return dtype, (expression, expression.tree.elts), offset


def extent(
    expression: Parsed, node: ast.expr, constants: Constants, place: Place, offset: int
) -> Dim:
    """One size of a type: a nonnegative integer, or a symbolic size."""
    at, width = expression.place(node)
    span = place.inside(offset + at, width)
    try:
        number = compute(expression, constants, place, node)
    except Fault as fault:
        raise Fault(fault.diagnostic.code, str(fault), span, fault.diagnostic.hint) from None
    return size_value(number, place, span)


def size_value(number: Any, place: Place, span: Any = None) -> Dim:
    """A number as a size. Raises Fault."""
    if isinstance(number, Sym):
        return number
    if isinstance(number, bool) or not isinstance(number, int):
        raise Fault(
            "XL2006", f"a size is a whole number, not {shown_value(number)}", span or place.span
        )
    if number < 0:
        raise Fault("XL2006", f"a size is not negative, and this is {number}", span or place.span)
    return number
