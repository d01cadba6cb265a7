"""Reductions and what is around them: which threads share a row, what is read how often, and that
sums are right.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gpu_harness import LARGE, SMALL, agree, apply, lowered, param, run

from xlac.driver import lower
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import Program

TICKETS = replace(SMALL, instructions=LARGE.instructions)


def launched(program: Program) -> list[tuple[int, int]]:
    """Blocks and threads of each kernel of a program without open sizes."""
    found = [grid(kernel) for kernel in program.kernels]
    return [(g.count({}), g.threads) for g in found if g is not None]


def shared(kernel: Kernel) -> int:
    found = grid(kernel)
    return 0 if found is None else found.shared_bytes


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F64])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (3, 2),
        (5, 3),
        (70, 5),
        (9, 8),
        (40, 33),
        (3, 64),
        (2, 128),
        (2, 260),
        (3, 1000),
        (1, 4096),
        (130, 1),
    ],
)
@pytest.mark.sampled(8)
def test_softmax(shape: tuple[int, int], dtype: DType) -> None:
    program = agree(apply("softmax", param("x", shape, dtype), axis=-1))
    assert len(program.kernels) == 1 or shape == (1, 4096)


@pytest.mark.parametrize("shape", [(4, 7, 24), (3, 1024), (2, 5, 6, 8), (1, 2048)])
def test_layer_norm_of_a_residual(shape: tuple[int, ...]) -> None:
    x, y = param("x", shape), param("y", shape)
    scale, shift = param("scale", shape[-1:]), param("shift", shape[-1:])
    total = build.add(x, y)
    agree(apply("layer_norm", total, scale, shift), total)


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize(
    "shape", [(3, 5, 7), (6, 40, 8), (2, 1, 64), (33, 9, 4), (0, 3, 2), (5, 0, 3), (20, 20, 20)]
)
@pytest.mark.parametrize("combine", ["add", "max"])
@pytest.mark.sampled(16)
def test_reductions(shape: tuple[int, ...], axes: tuple[int, ...], combine: str) -> None:
    agree(build.reduce(param("x", shape), combine, axes))


def test_statistics_over_columns_and_their_use() -> None:
    x = param("x", (6, 9, 12))
    mean = build.div(build.reduce(x, "add", (0, 1)), 54.0)
    agree(build.mul(build.sub(x, build.back(mean, x.shape, (0, 1))), 2.0))


@pytest.mark.parametrize("sizes", [(1, 1), (2, 3), (5, 64), (3, 200), (0, 7), (7, 300)])
def test_open_rows(sizes: tuple[int, int]) -> None:
    rows, columns = symbol("rows", 0, 9, 4), symbol("columns", 1, 300, 64)
    x = param("x", (rows, columns))
    named = {"rows": sizes[0], "columns": sizes[1]}
    agree(apply("softmax", x, axis=-1), sizes=named)
    agree(build.reduce(x, "add", 0), build.reduce(x, "max", 1), sizes=named)


def test_rows_that_fit_stay_in_registers() -> None:
    for columns in (32, 1000, 8192, 32768):
        (kernel,) = lowered(apply("softmax", param("x", (16384, columns)), axis=-1)).program.kernels
        assert kernel.work.bytes == 2 * 16384 * columns * 4
        assert shared(kernel) <= 2 * 32 * 4  # partial results of warps, nothing of the row
        assert _reads(kernel) == 16384 * columns


def test_longer_rows_stay_in_shared_memory() -> None:
    rows, columns = 4096, 20000
    total = build.add(param("x", (rows, columns)), param("y", (rows, columns)))
    (kernel,) = lowered(apply("softmax", total, axis=-1)).program.kernels
    assert shared(kernel) > columns * 4
    agree(apply("softmax", build.add(param("x", (2, 1500)), param("y", (2, 1500))), axis=-1))


def test_rows_longer_than_shared_memory_are_read_again() -> None:
    columns = 1 << 20
    (kernel,) = lowered(apply("softmax", param("x", (256, columns)), axis=-1)).program.kernels
    assert shared(kernel) < 4096


def test_a_full_reduction_moves_its_operands_once() -> None:
    count = 1 << 24
    x, y, z = (param(n, (count,)) for n in "xyz")
    program = lowered(build.reduce(build.add(x, build.mul(y, z)), "add")).program
    (kernel,) = program.kernels
    assert kernel.work.bytes == 3 * count * 4 + 4
    assert program.arena_bytes <= 4096  # what blocks leave for the last of them
    ((blocks, threads),) = launched(program)
    assert blocks * threads >= 132 * 1024
    assert _reads(kernel) == 3 * count


def test_a_full_reduction_without_tickets_is_two_launches() -> None:
    program = lowered(
        build.reduce(param("x", (1 << 24,)), "add"), target=replace(LARGE, instructions=frozenset())
    ).program
    first, second = program.kernels
    assert first.work.bytes == (1 << 26) + 4
    assert second.work.bytes == 0
    assert launched(program)[1][0] == 1


def test_a_small_reduction_is_one_launch() -> None:
    (kernel,) = lowered(build.reduce(param("x", (4096,)), "add")).program.kernels
    assert launched(lowered(build.reduce(param("x", (4096,)), "add")).program)[0][0] == 1
    assert kernel.work.bytes == 4096 * 4 + 4


@pytest.mark.parametrize("count", [1000, 5000, 30001])
def test_split_reductions_agree(count: int) -> None:
    x, y = param("x", (count,)), param("y", (count,))
    total = build.reduce(build.mul(x, y), "add")
    program = agree(total, rtol=1e-4)
    assert len(program.kernels) == (2 if count > 2000 else 1)
    assert len(agree(total, target=TICKETS, rtol=1e-4).kernels) == 1


@pytest.mark.parametrize("shape", [(3000, 4), (2000, 9), (900, 32)])
def test_split_columns_agree(shape: tuple[int, int]) -> None:
    total = build.reduce(param("x", shape), "add", 0)
    assert len(agree(total, rtol=1e-4).kernels) == 2
    assert len(agree(build.exp(build.mul(total, 0.01)), target=TICKETS, rtol=1e-4).kernels) == 1


def test_several_rows_with_parts_and_halves() -> None:
    x, y = param("x", (3, 5001)), param("y", (5001,), DType.BF16)
    assert (
        len(
            agree(
                build.reduce(x, "max", 1), build.reduce(x, "add", 1), target=TICKETS, rtol=1e-4
            ).kernels
        )
        == 1
    )
    assert len(agree(build.reduce(y, "add"), target=TICKETS).kernels) == 1


def test_variants_have_counters_of_their_own() -> None:
    x = param("x", (symbol("n", 1, 9000, 5000),))
    graph = Graph("g", (x,), {"y": build.reduce(x, "add")})
    program = lower(
        Model(graph, {}, dims={"n": next(iter(symbols(x.shape[0])))}),
        TICKETS,
        variants=[{"n": 4000}],
    ).program
    assert program.state_bytes == 2 * 64
    for count in (4000, 8000, 4000):
        values = np.random.default_rng(count).standard_normal(count).astype(np.float32)
        np.testing.assert_allclose(
            run(program, {"x": values})["y"], values.sum(dtype=np.float64), rtol=1e-4, atol=1e-3
        )


def test_nan_and_infinity_reach_the_results_they_should() -> None:
    x = param("x", (6, 100))
    values = np.random.default_rng(0).standard_normal((6, 100)).astype(np.float32)
    values[1, 7], values[2, 99], values[3, 0], values[4, :] = np.nan, np.inf, -np.inf, -np.inf
    agree(build.reduce(x, "max", 1), build.reduce(x, "min", 1), feeds={"x": values})
    agree(apply("softmax", x, axis=-1), feeds={"x": values})


def test_results_do_not_depend_on_other_rows() -> None:
    """Threads of rows that are not there meet the others' exchanges and leave no trace."""
    whole = agree(apply("log_softmax", param("x", (67, 12)), axis=-1), target=LARGE)
    ((blocks, threads),) = launched(whole)
    assert blocks * threads > 67


def _reads(kernel: Kernel) -> int:
    """Elements of global memory that the kernel's loads reach, counted through its loops."""
    from accesses import elements_read

    return sum(elements_read(kernel).values())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 9), (3, 40), (40, 3), (5, 300), (300, 5), (70, 70)])
def test_a_result_of_a_row_is_not_written_over_what_its_threads_read(
    shape: tuple[int, int], axis: int
) -> None:
    """A scale of each row is read by all threads of the row, and dies where a new one is stored."""
    x, other = param("x", shape), param("other", shape)
    scale = apply("reduce_max", apply("abs", other), axis=axis, keepdims=True)
    new = apply(
        "exp", apply("div", scale, apply("reduce_max", apply("abs", x), axis=axis, keepdims=True))
    )
    agree(apply("mul", apply("cumsum", apply("mul", x, new), axis=1 - axis), new))
