"""Comparisons, logic and choices, element by element."""

from __future__ import annotations

from xlac.frontends.torch.families.math.pointwise import operands
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
TESTS = {"isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite"}
LOGIC = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}


def _comparison(name: str) -> None:
    @aten(f"{name}.Tensor", f"{name}.Scalar")
    def builder(call: AtenCall, x: Scalar, y: Scalar) -> Node:
        dtype = call.promoted(x, y)
        if dtype is DType.BOOL and name not in ("eq", "ne"):
            dtype = DType.U8
        return build.compare(call.filled(x, dtype), name, call.filled(y, dtype))


def _test(name: str, mnemonic: str) -> None:
    @aten(name)
    def builder(call: AtenCall, x: Node) -> Node:
        if not x.type.dtype.is_float:
            return build.full(name == "isfinite", x.shape, DType.BOOL)
        return build.apply1(mnemonic, x)


def _logic(name: str, mnemonic: str) -> None:
    @aten(name)
    def builder(call: AtenCall, x: Node, y: Node) -> Node:
        return build.apply1(mnemonic, call.filled(x, DType.BOOL), call.filled(y, DType.BOOL))


for _name in COMPARISONS:
    _comparison(_name)
for _name, _mnemonic in TESTS.items():
    _test(_name, _mnemonic)
for _name, _mnemonic in LOGIC.items():
    _logic(_name, _mnemonic)


@aten("logical_not")
def logical_not(call: AtenCall, x: Node) -> Node:
    """Of numbers, whether each is zero."""
    return build.apply1("not", build.cast(x, DType.BOOL))


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def where(call: AtenCall, condition: Node, x: Scalar, y: Scalar) -> Node:
    """Elements of x where the condition is true, of y elsewhere; all three broadcast."""
    return build.select(call.filled(condition, DType.BOOL), *operands(call, x, y))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(call: AtenCall, x: Node, mask: Node, value: Scalar) -> Node:
    """The value where the mask is true, x elsewhere."""
    return where(call, mask, value, x)
