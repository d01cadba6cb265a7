"""Evaluates expressions over a kernel's sizes, such as a buffer's extent or a grid's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Var
from xlac_sdk.kernel_ir.semantics import evaluate


def extent(size: Expr, names: Mapping[str, int]) -> int:
    """The value of a symbolic buffer size, for given values of the kernel's sizes."""
    match size:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return names[name]
        case Apply(primitive=primitive, operands=operands, dtype=dtype):
            given = tuple(np.int64(extent(o, names)) for o in operands)
            return int(evaluate(primitive, given, dtype))
    raise TypeError(f"a buffer's size cannot be {size!r}")
