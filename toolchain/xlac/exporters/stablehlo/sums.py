"""Exports dot products and convolutions."""

from __future__ import annotations

from typing import Any

from xlac.exporters.stablehlo.literals import ints, pairs
from xlac.exporters.stablehlo.scalars import converted
from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.conv import Conv


def summed(
    w: StableHloWriter, node: Node, xs: tuple[SsaValue, SsaValue]
) -> tuple[list[SsaValue], Type]:
    """The operands, and the type in which products are summed: f32 for half precision, rounded
    once.
    """
    new = node.type.dtype
    kind = new.compute
    return [converted(w, x, kind) for x in xs], node.type.with_dtype(kind)


@rule("dot")
def dot(w: StableHloWriter, node: Node, x: SsaValue, y: SsaValue) -> SsaValue:
    """dot_general, summed in the node's dtype."""
    op: Any = node.op
    given, type = summed(w, node, (x, y))
    fields = [
        ("lhs_batching_dimensions", op.batch_lhs),
        ("rhs_batching_dimensions", op.batch_rhs),
        ("lhs_contracting_dimensions", op.contract_lhs),
        ("rhs_contracting_dimensions", op.contract_rhs),
    ]
    text = ", ".join(f"{name} = [{', '.join(map(str, axes))}]" for name, axes in fields)
    return converted(
        w,
        w.op("dot_general", given, type, f"dot_dimension_numbers = #stablehlo.dot<{text}>"),
        node.type.dtype,
    )


@rule("conv")
def conv(w: StableHloWriter, node: Node, x: SsaValue, kernel: SsaValue) -> SsaValue:
    """Spatial axes are numbered in the order of our attributes."""
    op = node.op
    assert isinstance(op, Conv)
    given, type = summed(w, node, (x, kernel))
    space = [letter for letter in op.layout[0] if letter not in "NC"]
    words = {letter: str(number) for number, letter in enumerate(space)}
    names = ({"N": "b", "C": "f"}, {"O": "o", "I": "i"}, {"N": "b", "C": "f"})
    a, b, c = (
        "[" + ", ".join((own | words)[letter] for letter in layout) + "]"
        for layout, own in zip(op.layout, names, strict=True)
    )
    text = (
        f"dimension_numbers = #stablehlo.conv<{a}x{b}->{c}>, window_strides = {ints(op.strides)}, "
        f"padding = {pairs(op.low, op.high)}, "
        f"lhs_dilation = {ints(op.lhs_dilation)}, rhs_dilation = {ints(op.rhs_dilation)}, "
        f"window_reversal = {flags(len(space))}, feature_group_count = {op.feature_groups} : i64, "
        f"batch_group_count = {op.batch_groups} : i64"
    )
    return converted(w, w.op("convolution", given, type, text), node.type.dtype)


def flags(count: int) -> str:
    """As many false booleans, as an attribute."""
    listed = ", ".join(["false"] * count)
    return f"array<i1: {listed}>" if listed else "array<i1>"
