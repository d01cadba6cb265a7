"""Element types by their names, and what a node computes without inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType

F32, F16, BF16, I8, I32, I64, U8, U32, U64, BOOL = (
    DType(n) for n in "f32 f16 bf16 i8 i32 i64 u8 u32 u64 bool".split()
)


def value(node: Node, **inputs: Any) -> Array:
    params = tuple(
        n for n in Graph("g", (), {"y": node}).nodes() if not n.inputs and n.op.mnemonic == "param"
    )
    return interpret(
        Graph("g", params, {"y": node}), {k: np.asarray(v) for k, v in inputs.items()}
    )["y"]
