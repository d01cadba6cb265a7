"""GPUs with and without tensor cores, products for them, and what their kernels say."""

from __future__ import annotations

from contraction_harness import param, program

from xlac.codegen.gpu.core.instructions import COMMIT, COPY, MMA, WAIT
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Instruction, Kernel, Load, Space, statements
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.target import Target

D = DType
PLAIN = Target(
    "gpu", warp=8, block_threads=32, shared_bytes=48 << 10, access_bytes=16, processors=4
)
"""Warps of eight threads and no instructions: the tiles that ordinary arithmetic takes."""

CORES = Target(
    "gpu",
    warp=32,
    block_threads=64,
    shared_bytes=48 << 10,
    access_bytes=16,
    processors=4,
    instructions=frozenset({*MMA.values(), COPY, COMMIT, WAIT}),
)
"""Tensor cores and copies that threads do not wait for."""

TURNS = [(False, False), (False, True), (True, False), (True, True)]
SIZES = [
    (5, 1, 131),
    (3, 19, 200),
    (40, 37, 67),
    (16, 32, 16),
    (33, 64, 48),
    (1, 1, 77),
    (7, 5, 0),
    (0, 5, 7),
]


def matmul(
    m: int,
    n: int,
    k: int,
    turned: tuple[bool, bool] = (False, False),
    dtype: DType = D.F32,
    kind: str = "input",
    out: DType | None = None,
) -> Node:
    left = param("a", Type(dtype, (k, m) if turned[0] else (m, k)))
    right = param("b", Type(dtype, (n, k) if turned[1] else (k, n)), kind)
    return Node.of(
        Dot(
            contract_lhs=(0 if turned[0] else 1,),
            contract_rhs=(1 if turned[1] else 0,),
            out_dtype=out,
        ),
        left,
        right,
    )


def kernels(made: Group, target: Target) -> list[Kernel]:
    return list(program(made, target, {}).kernels)


def named(kernel: Kernel) -> set[str]:
    return {s.name for s in statements(kernel.body) if isinstance(s, Instruction)}


def loads(kernel: Kernel) -> list[Load]:
    found = [e for s in statements(kernel.body) for e in walk(roots(s)) if isinstance(e, Load)]
    return [e for e in found if e.buffer.space is Space.GLOBAL]
