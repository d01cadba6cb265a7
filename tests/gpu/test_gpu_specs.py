"""The shipped specs on a GPU without a device: how many kernels, what they move, how wide and how
neighbourly.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from accesses import elements_read, sectors, touches
from gpu_harness import LARGE, apply, lowered, param
from shipped import MODELS

from xlac.driver import Lowered, lower, specialized
from xlac.frontends.loader import load
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Allocate, statements
from xlac_sdk.programs.verify import verify_program

SPECS = Path(__file__).parents[2] / "specs"
NAMES = [file.stem for file in MODELS]
MEMORY_BOUND = ("softmax", "mul_add_reduce", "elementwise_chain", "layernorm_gelu")


@cache
def of_spec(name: str) -> Lowered:
    return lower(specialized(load(SPECS / f"{name}.yaml")), LARGE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(8)
def test_kernels_are_well_formed_and_small(name: str) -> None:
    program = of_spec(name).program
    verify_program(program)
    for kernel in program.kernels:
        allocated = [s.buffer for s in statements(kernel.body) if isinstance(s, Allocate)]
        own = sum(
            b.size * b.dtype.nbytes
            for b in allocated
            if b.space.value == "local" and isinstance(b.size, int)
        )
        assert own <= 1024, f"a thread of {kernel.name} has {own} bytes of its own"
        found = grid(kernel)
        assert found is None or found.shared_bytes <= LARGE.shared_bytes
        assert found is None or found.threads <= LARGE.block_threads


@pytest.mark.parametrize("name", MEMORY_BOUND)
def test_what_is_bound_by_memory_is_one_kernel_of_whole_sectors(name: str) -> None:
    lowering = of_spec(name)
    (kernel,) = lowering.program.kernels
    found = grid(kernel)
    assert found is not None
    for block in {0, found.count({}) // 2}:
        assert set(sectors(kernel, block).values()) == {1.0}
    assert max(t.lanes * t.buffer.dtype.nbytes for t in touches(kernel, 0, 0)) == 16


@pytest.mark.parametrize("name", MEMORY_BOUND)
def test_what_is_bound_by_memory_reads_every_large_operand_once(name: str) -> None:
    (kernel,) = of_spec(name).program.kernels
    found = elements_read(kernel)
    large = [
        b
        for b in kernel.parameters
        if b.name in found and b.size == max(p.size for p in of_spec(name).program.inputs)
    ]
    assert large
    assert all(found[b.name] == b.size for b in large)


def test_the_sum_of_a_product_moves_each_operand_once() -> None:
    (kernel,) = of_spec("mul_add_reduce").program.kernels
    count = of_spec("mul_add_reduce").program.inputs[0].size
    assert kernel.work.bytes == 3 * count * 4 + 4


def test_a_norm_of_halves_casts_its_scale_where_it_is_read() -> None:
    x, scale = param("x", (8192, 8192), DType.BF16), param("scale", (8192,), DType.BF16)
    assert len(lowered(apply("rms_norm", x, scale)).program.kernels) == 1


def test_few_long_rows_are_split_instead_of_fused() -> None:
    """One kernel of four blocks would leave 128 multiprocessors idle."""
    x = param("x", (4, 1 << 20))
    assert len(lowered(apply("softmax", x, axis=-1)).program.kernels) > 1
    assert len(lowered(apply("softmax", param("x", (4, 1 << 14)), axis=-1)).program.kernels) == 1


def test_small_results_of_several_shapes_share_a_launch() -> None:
    xs = [param(f"x{k}", (1000 + k, 7)) for k in range(5)]
    assert len(lowered(*(build.exp(x) for x in xs)).program.kernels) == 1
