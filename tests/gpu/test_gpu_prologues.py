"""Operands of products that are computed as they are read: where that pays, they are written
nowhere.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from gpu_harness import LARGE, SMALL, agree, lowered, param

from xlac.codegen.gpu.core.instructions import COMMIT, COPY, MMA, WAIT
from xlac.ir.dims import Dim, symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Access
from xlac_sdk.libraries.product import Products
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target

D = DType
CORES = frozenset({*MMA.values(), COPY, COMMIT, WAIT})
FEW = replace(SMALL, instructions=CORES, shared_bytes=160 << 10, block_threads=256)
HOPPER = replace(LARGE, instructions=CORES)
COMPUTED = "an operand is computed as it is read"


def product(left: Node, right: Node, turned: bool = False) -> Node:
    return Node.of(Dot(contract_lhs=(1,), contract_rhs=(int(turned),)), left, right)


def dequantised(
    m: Dim, n: int, k: int, dtype: DType = D.BF16, group: int = 0, turned: bool = False
) -> Node:
    """x times (q - zero) * scale, both of each column, or of each column and so many steps of the
    sum.
    """
    x, q = param("x", (m, k), dtype), param("q", (n, k) if turned else (k, n), D.I8)
    shape = (k // group, 1, n) if group else (n, 1) if turned else (n,)
    scale, zero = param("scale", shape, dtype), build.cast(param("zero", shape, D.I8), dtype)
    whole = build.cast(build.reshape(q, (k // group, group, n)) if group else q, dtype)
    weights = build.mul(build.sub(whole, zero), scale)
    return product(x, build.reshape(weights, (k, n)) if group else weights, turned)


def normalised(m: Dim, n: int, k: int, dtype: DType = D.BF16, kind: str = "layer_norm") -> Node:
    """relu(norm(x) w)"""
    learned = [param(name, (k,), dtype) for name in ("weight", "bias")][
        : 2 if kind == "layer_norm" else 1
    ]
    return build.maximum(
        product(build.apply1(kind, param("x", (m, k), dtype), *learned), param("w", (k, n), dtype)),
        0.0,
    )


def notes(program: Program) -> list[str]:
    return [kernel.note for kernel in program.kernels]


def written(program: Program) -> set[object]:
    """Elements of all that kernels write."""
    return {
        b.size
        for kernel in program.kernels
        for b in kernel.parameters
        if b.access is not Access.READ
    }


@pytest.mark.parametrize(
    "node",
    [
        dequantised(40, 72, 96),
        dequantised(3, 72, 96),
        dequantised(33, 40, 64, group=32),
        dequantised(24, 72, 96, turned=True),
        dequantised(20, 33, 50, D.F32),
        dequantised(symbol("m", min=1, max=40, opt=20), 24, 32),
    ],
    ids=["bf16", "few rows", "groups", "turned", "f32", "open"],
)
@pytest.mark.sampled(12)
def test_weights_are_dequantised_on_their_way(node: Node) -> None:
    """Scales and zero points of columns or groups; one kernel."""
    sizes = {"m": 17} if not isinstance(node.shape[0], int) else {}
    program = agree(node, target=FEW, sizes=sizes)
    assert len(program.kernels) == 1 and COMPUTED in program.kernels[0].note


@pytest.mark.parametrize(
    ("kind", "dtype", "k"),
    [("layer_norm", D.BF16, 48), ("layer_norm", D.F32, 37), ("rms_norm", D.F16, 48)],
)
@pytest.mark.sampled(8)
@pytest.mark.long
def test_rows_are_normalised_on_their_way(kind: str, dtype: DType, k: int) -> None:
    """What rows are reduced to comes from a kernel of its own; the normalised array is written by
    nobody.
    """
    program = agree(normalised(300, 16, k, dtype, kind), target=FEW)
    statistics, last = program.kernels
    assert COMPUTED in last.note and COMPUTED not in statistics.note
    assert 300 * k not in written(program)


@pytest.mark.parametrize(
    ("node", "pays"),
    [
        (dequantised(256, 2048, 1024), True),
        (dequantised(4096, 2048, 1024), False),
        (normalised(65536, 128, 256), True),
        (normalised(4096, 4096, 4096), False),
        (normalised(1, 2048, 1024), False),
    ],
    ids=["few rows", "many rows", "few columns", "many columns", "one row"],
)
def test_it_is_done_where_few_tiles_do_it_again(node: Node, pays: bool) -> None:
    assert (COMPUTED in " ".join(notes(lowered(node, target=HOPPER).program))) is pays


def test_not_for_libraries_which_read_memory() -> None:
    library = Products("library", D.BF16, frozenset({D.BF16}), frozenset(), 64, 1 << 24, 0)
    target = replace(HOPPER, products=frozenset({library}))
    assert COMPUTED not in " ".join(
        notes(lowered(dequantised(256, 2048, 1024), target=target).program)
    )


def test_not_where_others_read_it_too() -> None:
    x, q, scale = (
        param("x", (16, 256), D.BF16),
        param("q", (256, 128), D.I8),
        param("scale", (128,), D.BF16),
    )
    weights = build.mul(build.cast(q, D.BF16), scale)
    program = lowered(product(x, weights), build.add(weights, 1.0), target=HOPPER).program
    assert COMPUTED not in " ".join(notes(program))


def test_products_that_share_it_compute_it_each() -> None:
    x = param("x", (40, 64), D.BF16)
    weights = build.mul(
        build.cast(param("q", (64, 32), D.I8), D.BF16), param("scale", (32,), D.BF16)
    )
    others = param("y", (24, 64), D.BF16)
    program = agree(product(x, weights), product(others, weights), target=FEW)
    assert len(program.kernels) == 2 and all(COMPUTED in note for note in notes(program))


def test_not_on_a_cpu() -> None:
    program = lowered(
        dequantised(16, 128, 256, D.F32), target=Target("cpu", 64, 32, fma=True)
    ).program
    assert COMPUTED not in " ".join(notes(program))
