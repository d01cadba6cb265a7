"""Dot products for tests of their schedules."""

from __future__ import annotations

from contraction_harness import param

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType

F32 = DType.F32


def matmul(
    m: int,
    n: int,
    k: int,
    kind: str = "input",
    turned: tuple[bool, bool] = (False, False),
    dtype: DType = F32,
) -> Node:
    left = param("a", Type(dtype, (k, m) if turned[0] else (m, k)))
    right = param("b", Type(dtype, (n, k) if turned[1] else (k, n)), kind)
    return Node.of(
        Dot(contract_lhs=(0 if turned[0] else 1,), contract_rhs=(1 if turned[1] else 0,)),
        left,
        right,
    )


def _layer(m: int, n: int, k: int, dtype: DType = F32) -> tuple[Node, Node]:
    anchor = matmul(m, n, k, "weight", dtype=dtype)
    return anchor, build.add(anchor, param("bias", Type(dtype, (n,)), "weight"))
