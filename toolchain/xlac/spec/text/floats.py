"""Detects finite numbers that would silently become infinite in an element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlac.ir.graph import Node
from xlac.spec.report import Fault
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Span

HINT = "an infinity is written inf; f64, or dtype: f64, has numbers up to 1.8e308"


def check_room(value: Any, dtype: DType, span: Span) -> None:
    """Raises Fault for a finite number that is infinite in a float type."""
    if dtype.is_float and beyond(value, dtype):
        shown = str(value) if len(str(value)) <= 40 else f"a number of {len(str(value))} digits"
        raise Fault("XL2006", f"{shown} does not fit {dtype}: it would be infinite", span, HINT)


def beyond(value: Any, dtype: DType) -> bool:
    """Whether a finite number is infinite in a float type."""
    # representable in every float type
    if type(value) not in (int, float) or -60000 < value < 60000:
        return False
    try:
        number = float(value)
    except OverflowError:
        return True
    with np.errstate(over="ignore"):
        return bool(
            np.isfinite(number)
            and not np.isfinite(np.asarray(number).astype(dtype.compute.numpy).astype(dtype.numpy))
        )


def check_numbers(
    operands: Sequence[Any], attributes: Mapping[str, Any], results: Sequence[Node], spans: Any
) -> None:
    """Checks the numbers of an operation: operands in the float type of the other operands,
    attributes in f32, or f64. Raises Fault.
    """
    types = {
        # not called `type`, which CPython 3.12.0 and 3.12.1 would not find below
        result.dtype
        for node in (*operands, *results)
        if isinstance(node, Node)
        for result in node.results
    }
    for name, value in attributes.items():
        check_room(value, DType.F64 if DType.F64 in types else DType.F32, spans.attribute(name))
    large = [
        i for i, o in enumerate(operands) if type(o) in (int, float) and not -60000 < o < 60000
    ]
    if large:
        from xlac.ops.tensor.leaf import Const
        from xlac.ops.values import promoted

        given = {id(o) for o in operands}
        seen, todo = set[int](), list(results)
        while todo:  # what was made here: an integer that is an index becomes no float
            node = todo.pop()
            if id(node) not in given and id(node) not in seen:
                seen.add(id(node))
                todo += node.inputs
                if (
                    isinstance(node.op, Const)
                    and node.type.dtype.is_float
                    and np.isinf(node.op.value).any()
                ):
                    for i in large:
                        check_room(operands[i], promoted(operands), spans.operand(i))
