"""Products whose warps have different work: one thread asks for tiles, groups of four warps
multiply them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_harness import agree, group, param, program

from xlac.codegen.gpu.core import tma
from xlac.codegen.gpu.core.instructions import COMMIT, COPY, FENCE, GROUPED, MMA, SETTLE, WAIT
from xlac.codegen.gpu.gemm import warp_specialized_gemm, wgmma
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.reduction.contraction import Dot
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Const, Instruction, Kernel, TensorMap, statements
from xlac_sdk.programs.tensor_maps import tensor_maps
from xlac_sdk.target import Target

D = DType
HOPPER = Target(
    "gpu",
    warp=32,
    block_threads=1024,
    shared_bytes=227 << 10,
    access_bytes=16,
    processors=2,
    instructions=frozenset(
        {*MMA.values(), COPY, COMMIT, WAIT, FENCE, SETTLE, *GROUPED.values(), *tma.NAMES}
    ),
)
ONE_GROUP = replace(HOPPER, block_threads=256)


def matmul(m: int, n: int, k: int, turned: str = "nt", dtype: DType = D.BF16) -> Node:
    """A product; `turned` has a t for each operand that lies the other way round."""
    left = param("a", Type(dtype, (k, m) if turned[0] == "t" else (m, k)))
    right = param("b", Type(dtype, (n, k) if turned[1] == "t" else (k, n)))
    return Node.of(
        Dot(contract_lhs=(int(turned[0] == "n"),), contract_rhs=(int(turned[1] == "t"),)),
        left,
        right,
    )


def only(made: Group, target: Target) -> Kernel:
    (kernel,) = program(made, target, {}).kernels
    return kernel


def named(kernel: Kernel) -> set[str]:
    return {s.name for s in statements(kernel.body) if isinstance(s, Instruction)}


def maps(kernel: Kernel) -> list[TensorMap]:
    return list(tensor_maps(kernel, tma.NAMES))


@pytest.mark.parametrize("turned", ["nt", "nn", "tt", "tn"])
@pytest.mark.sampled(4)
def test_layouts(
    turned: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operand may lie along the sum or along its own side; rings go round, the last tiles are
    partly empty.
    """
    for module in (warp_specialized_gemm, wgmma):
        monkeypatch.setattr(module, "WIDE", 64)  # the interpreter is slow
    made, target = (
        group(Kind.DOT, matmul(56, 56, 136, turned)),
        replace(ONE_GROUP, processors=1, shared_bytes=35_000),
    )
    kernel = only(made, target)
    assert {tma.WAIT, tma.EXPECT, tma.DONE, tma.BRING[2], SETTLE, GROUPED[D.BF16]} <= named(kernel)
    left, right = maps(kernel)
    assert left.box == right.box == (64, 64)
    if turned == "nt" or request.config.getoption("--all"):  # seconds each
        agree(made, target)


def test_two_groups_share_registers_out() -> None:
    names = named(only(group(Kind.DOT, matmul(512, 512, 256)), HOPPER))
    assert {tma.MORE, tma.FEWER} <= names


def test_axes_of_the_batch_are_axes_of_the_map() -> None:
    """Those that an operand has: outermost is what lies farthest apart."""
    left, right = (
        param(name, Type(D.BF16, (3, rows, 5, 256))) for name, rows in (("a", 128), ("b", 512))
    )
    heads = Dot(contract_lhs=(3,), contract_rhs=(3,), batch_lhs=(0, 2), batch_rhs=(0, 2))
    kernel = only(group(Kind.DOT, Node.of(heads, left, right)), HOPPER)
    first, second = maps(kernel)
    assert first.box == (1, 128, 1, 64) and [
        int(n.value) for n in first.extents if isinstance(n, Const)
    ] == [3, 128, 5, 256]
    assert second.box == (1, 256, 1, 64) and tma.BRING[4] in named(kernel)


@pytest.mark.parametrize(
    "anchor",
    [matmul(512, 512, 260), matmul(512, 512, 256, dtype=D.F32), matmul(128, 64, 256)],
    ids=["rows of 520 bytes", "f32", "few columns"],
)
def test_what_the_copy_engine_does_not_take(anchor: Node) -> None:
    assert not maps(only(group(Kind.DOT, anchor), HOPPER))
