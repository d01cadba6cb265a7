"""Loads of a product's operand, from memory or computed."""

from __future__ import annotations

from xlac.codegen.core.contraction.contraction import OperandSource, unravel, zero
from xlac.codegen.core.elements import Elements
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr


def read(
    elements: Elements,
    source: OperandSource,
    where: Expr,
    lanes: int = 1,
    there: Expr | None = None,
) -> Expr:
    """One element, or `lanes` of them: consecutive ones from an offset, or those at a vector of
    offsets. Zeros if `there`, a scalar, is false.
    """
    if not source.computed:
        buffer = elements.parameter(source.value, Access.READ)
        align = lanes * buffer.dtype.nbytes if lanes > 1 and where.lanes == 1 else 0
        return build.load(
            buffer, where, lanes, None if there is None else build.splat(there, lanes), align
        )
    node = source.value
    assert isinstance(node, Node), "only operands that are nodes can be computed"
    *outer, last = unravel(elements.builder, where, node.shape)
    with elements.guarded(there):
        value = elements.at(
            node, (*outer, build.ramp(last, 1, lanes) if where.lanes < lanes else last)
        )
    value = build.splat(build.cast(value, source.dtype), lanes)
    if there is None:
        return value
    return build.select(build.splat(there, lanes), value, zero(source.dtype, lanes))
