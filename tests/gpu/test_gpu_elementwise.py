"""Elementwise groups: how wide accesses are, how neighbours' accesses lie, how many launches there
are.
"""

from __future__ import annotations

import pytest
from accesses import conflicts, sectors, touches
from gpu_harness import LARGE, SMALL, agree, apply, lowered, param

from xlac.ir.dims import Dim, symbol
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Store, statements
from xlac_sdk.kernel_ir.ranges import Ranges, fits

MILLION = 1 << 20


@pytest.mark.parametrize(
    "dtype", [DType.F32, DType.BF16, DType.F16, DType.F64, DType.I8, DType.BOOL]
)
def test_accesses_are_sixteen_bytes_wide(dtype: DType) -> None:
    x, y = param("x", (MILLION,), dtype), param("y", (MILLION,), dtype)
    node = apply("logical_xor", x, y) if dtype is DType.BOOL else build.add(x, y)
    (kernel,) = lowered(node).program.kernels
    for touch in touches(kernel, 1, 5):
        assert touch.lanes * dtype.nbytes == 16
    assert set(sectors(kernel, 1).values()) == {1.0}


def test_a_mixture_of_types_has_the_lanes_of_the_widest() -> None:
    x, y = param("x", (MILLION,), DType.BF16), param("y", (MILLION,))
    (kernel,) = lowered(build.add(build.cast(x, DType.F32), y)).program.kernels
    assert {t.lanes for t in touches(kernel, 0, 0)} == {4}


def test_a_thread_of_a_long_array_waits_for_several_accesses() -> None:
    (kernel,) = lowered(build.exp(param("x", (16 * MILLION,)))).program.kernels
    found = touches(kernel, 7, 3)
    assert [t.written for t in found] == [False] * 4 + [True] * 4


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 255, 256, 257, 1023, 1024, 1025, 2047, 5003])
def test_any_length(count: int) -> None:
    x = param("x", (count,))
    agree(build.add(build.exp(x), 1.0))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 1000, 4096, 5001])
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.U8])
def test_any_length_that_a_call_chooses(count: int, dtype: DType) -> None:
    x = param("x", (symbol("n", 0, 6000, 4096),), dtype)
    agree(build.add(x, x), sizes={"n": count})


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 5), (1, 0)), ((17, 40), (1, 0)), ((64, 64), (1, 0)), ((33, 129), (1, 0)),
    ((2, 16, 18), (0, 2, 1)), ((3, 20, 5, 24), (0, 3, 1, 2)), ((20, 3, 24), (2, 1, 0)),
    ((1, 50, 1, 20), (3, 2, 1, 0)), ((0, 20), (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "perm"), SHAPES)
@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.I8])
@pytest.mark.sampled(8)
def test_transpositions(shape: tuple[int, ...], perm: tuple[int, ...], dtype: DType) -> None:
    turned = build.transpose(param("x", shape, dtype), perm)
    agree(turned)
    agree(build.add(build.mul(turned, turned), param("y", turned.shape, dtype)))


@pytest.mark.parametrize("sizes", [(1, 1), (16, 40), (33, 70), (0, 5), (40, 64)])
def test_transpositions_of_open_sizes(sizes: tuple[int, int]) -> None:
    rows, columns = symbol("rows", 0, 40, 32), symbol("columns", 0, 70, 64)
    agree(
        build.exp(build.transpose(param("x", (rows, columns)), (1, 0))),
        sizes={"rows": sizes[0], "columns": sizes[1]},
    )


@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.BF16, DType.I8])
def test_both_sides_of_a_transposition_are_coalesced(dtype: DType) -> None:
    (kernel,) = lowered(build.transpose(param("x", (1024, 2048), dtype), (1, 0))).program.kernels
    for warp in (0, 3):
        assert set(sectors(kernel, 5, warp).values()) == {1.0}


@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.BF16, DType.I8])
def test_no_two_threads_of_a_transposition_meet_in_a_bank(dtype: DType) -> None:
    (kernel,) = lowered(build.transpose(param("x", (1024, 2048), dtype), (1, 0))).program.kernels
    assert [conflicts(kernel, 5, warp) for warp in (0, 3)] == [1, 1]


def test_the_pieces_of_a_concatenation_are_one_launch() -> None:
    xs = [param(f"x{k}", (n, 6)) for k, n in enumerate((3, 1, 0, 5))]
    program = agree(apply("concat", *xs, axis=0))
    assert len(program.kernels) == 1
    agree(apply("concat", *[build.transpose(x, (1, 0)) for x in xs], axis=1))


def test_values_of_several_shapes_are_one_launch() -> None:
    xs = [param(f"x{k}", (k + 3,)) for k in range(4)]
    assert len(agree(*(build.exp(x) for x in xs)).kernels) == 1


@pytest.mark.parametrize("extents", [(2, 3), (0, 4), (5, 0), (7, 9)])
def test_concatenations_of_open_sizes(extents: tuple[int, int]) -> None:
    a, b = symbol("a", 0, 9, 4), symbol("b", 0, 9, 4)
    x, y = param("x", (a, 5)), param("y", (b, 5))
    agree(apply("concat", x, y, axis=0), sizes={"a": extents[0], "b": extents[1]})


def test_an_embedding_reads_whole_rows() -> None:
    table, rows = param("table", (50, 32)), param("rows", (7, 3), DType.I64)
    how = {
        "offset_dims": (2,),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 2,
        "slice_sizes": (1, 32),
    }
    program = agree(apply("gather", table, rows, **how))
    (kernel,) = program.kernels
    assert {t.lanes for t in touches(kernel, 0, 0)} >= {4}


@pytest.mark.parametrize("shape", [(6, 40), (5, 33), (2, 3, 8)])
def test_broadcasts_and_slices(shape: tuple[Dim, ...]) -> None:
    x, row = param("x", shape), param("row", shape[-1:])
    node = build.mul(build.add(x, row), 2.0)
    agree(
        node, apply("slice", node, starts=(1,) * len(shape), stops=shape, steps=(1,) * len(shape))
    )


def test_results_take_the_place_of_operands() -> None:
    """Every thread reads what it overwrites before it writes, and nobody else reads it."""
    x = param("x", (3000,))
    first = build.exp(x)
    agree(build.mul(build.add(first, build.reduce(first, "add")), first), target=SMALL)
    agree(build.mul(build.add(first, build.reduce(first, "add")), first), target=LARGE)


@pytest.mark.parametrize("count", [1 << 28, 1 << 33])
def test_addresses_have_as_many_bits_as_they_need(count: int) -> None:
    """What a thread computes fits 32 bits where the elements do, and does not where they do not."""
    (kernel,) = lowered(build.exp(param("x", (count,)))).program.kernels
    found = grid(kernel)
    assert found is not None
    last = touches(kernel, found.count({}) - 1, found.threads - 1)
    assert max(t.first + t.lanes for t in last) == count
    known = Ranges()
    indices = [s.index for s in statements(kernel.body) if isinstance(s, Store)]
    assert indices
    assert all(fits(known(i), DType.I64) for i in indices)
    assert all(fits(known(i), DType.I32) for i in indices) == (count < 1 << 31)
