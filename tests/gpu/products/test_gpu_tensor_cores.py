"""Products on tensor cores: types, rounding, copies that threads do not wait for, four warps
together.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import agree, compute, group, param, values
from gpu_products import CORES, PLAIN, TURNS, D, kernels, matmul, named

from xlac.codegen.gpu.core.instructions import COMMIT, COPY, FENCE, GROUPED, MMA, SETTLE, WAIT
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Allocate, Space, statements


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("dtype", [D.BF16, D.F16, D.I8])
@pytest.mark.sampled(12)
def test_tensor_cores(
    dtype: DType, turned: tuple[bool, bool], request: pytest.FixtureRequest
) -> None:
    """Each type in every layout; bf16 in two of three sizes, with --all in all."""
    sizes = ((16, 32, 16), (17, 50, 48), (24, 20, 160)) if dtype is D.BF16 else ((17, 37, 67),)
    left = (
        sizes[TURNS.index(turned) % 3]
        if len(sizes) == 3 and not request.config.getoption("--all")
        else None
    )
    for m, n, k in (size for size in sizes if size != left):
        out = D.I32 if dtype is D.I8 else None
        made = group(Kind.DOT, matmul(m, n, k, turned, dtype, out=out))
        (kernel,) = kernels(made, CORES)
        assert (MMA[dtype] in named(kernel)) == (k * dtype.nbytes >= 32)
        agree(made, CORES)


def test_tensor_cores_round_to_tf32() -> None:
    made = group(Kind.DOT, matmul(16, 24, 40))
    given = values(made)
    (got,) = compute(made, CORES, given)

    def rounded(x: np.ndarray) -> np.ndarray:
        return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)

    np.testing.assert_allclose(got, rounded(given["a"]) @ rounded(given["b"]), rtol=1e-5, atol=1e-5)
    assert np.abs(got - given["a"] @ given["b"]).max() > 1e-5


def test_f32_stays_f32_without_permission() -> None:
    target = replace(CORES, instructions=CORES.instructions - {MMA[D.F32]})
    agree(group(Kind.DOT, matmul(16, 24, 40)), replace(target, warp=8))
    (kernel,) = kernels(group(Kind.DOT, matmul(16, 24, 40)), target)
    assert not any(name.startswith("matrix.multiply") for name in named(kernel))


def test_whole_pieces_are_copied_without_registers() -> None:
    (kernel,) = kernels(group(Kind.DOT, matmul(64, 64, 64, dtype=D.BF16)), CORES)
    assert {COPY, COMMIT, WAIT} <= named(kernel)
    (kernel,) = kernels(group(Kind.DOT, matmul(64, 61, 67, dtype=D.BF16)), CORES)
    assert not {COPY, COMMIT, WAIT} & named(kernel)


def test_quantised_weights_are_converted_on_the_way() -> None:
    left, right = param("a", Type(D.BF16, (18, 64))), param("b", Type(D.I8, (64, 24)))
    made = group(Kind.DOT, Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), left, right))
    (kernel,) = kernels(made, CORES)
    assert MMA[D.BF16] in named(kernel)
    agree(made, CORES)


def test_batches_and_convolutions_on_tensor_cores() -> None:
    left, right = param("a", Type(D.BF16, (2, 3, 9, 32))), param("b", Type(D.BF16, (2, 3, 32, 16)))
    agree(group(Kind.DOT, Node.of(Dot((0, 1), (0, 1), (3,), (2,)), left, right)), CORES)
    x, kernel = param("x", Type(D.BF16, (1, 6, 5, 16))), param("k", Type(D.BF16, (3, 3, 16, 8)))
    conv = Conv(("NHWC", "HWIO", "NHWC"), (1, 1), (1, 1), (1, 1), (1, 1), (1, 1))
    agree(group(Kind.CONV, Node.of(conv, x, kernel)), CORES)


def test_shared_memory_fits() -> None:
    for dtype, size in ((D.F32, 300), (D.BF16, 300), (D.F64, 300)):
        for target in (PLAIN, CORES, replace(CORES, block_threads=1024, shared_bytes=227 << 10)):
            (kernel,) = kernels(group(Kind.DOT, matmul(size, size, size, dtype=dtype)), target)
            shared = [
                s.buffer
                for s in statements(kernel.body)
                if isinstance(s, Allocate) and s.buffer.space is Space.SHARED
            ]
            assert 0 < sum(b.size * b.dtype.nbytes for b in shared) <= target.shared_bytes


@pytest.mark.long
def test_four_warps_multiply_together() -> None:
    """Only where the facts list the instruction; the interpreter runs what it means."""
    target = replace(
        CORES,
        block_threads=128,
        shared_bytes=227 << 10,
        processors=1,
        instructions=CORES.instructions | {*GROUPED.values(), SETTLE},
    )
    made = group(Kind.DOT, matmul(50, 200, 136, (False, True), D.BF16))
    (kernel,) = kernels(made, target)
    assert {GROUPED[D.BF16], FENCE, SETTLE} <= named(kernel)
    agree(made, target)
    (kernel,) = kernels(group(Kind.DOT, matmul(50, 200, 136, dtype=D.BF16)), target)
    assert not set(GROUPED.values()) & named(kernel)
