"""Scatter's kernels against its meaning."""

from __future__ import annotations

import numpy as np
import pytest
from loops_harness import MASKED, PLAIN, SCALAR, WIDE, check_graph, graph_of, param
from order_harness import check, check_sample, label

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.scalar import arithmetic
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType

F32, I32 = DType.F32, DType.I32
ROWS = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
SMALL = [s for s in Scatter.samples() if s.inputs[0].size < 500]


def draw(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
    if type_.dtype is DType.BOOL:
        return rng.random(type_.shape) < 0.5
    low = -3 if type_.dtype.is_signed else 0
    return rng.integers(low, 10, type_.shape).astype(type_.dtype.numpy)


@pytest.mark.parametrize("sample", SMALL, ids=label)
def test_samples(sample: Sample) -> None:
    check_sample(Scatter, sample, draw=draw)


@pytest.mark.parametrize("combine", ["assign", "add", "max"])
def test_wide_rows(combine: str) -> None:
    types = [Type(F32, (7, 300)), Type(I32, (9,)), Type(F32, (9, 300))]
    check(Scatter(combine=combine, **ROWS), types, draw=draw, targets=(SCALAR, MASKED, PLAIN, WIDE))


def test_columns_in_threads() -> None:
    types = [Type(I32, (5, 1999)), Type(I32, (12,)), Type(I32, (12, 1999))]
    check(Scatter(combine="add", **ROWS), types, draw=draw, targets=(MASKED, PLAIN))


def test_window_that_hangs_over_every_edge() -> None:
    """Both axes are placed by indices, so parts of the window fall outside."""
    op = Scatter(
        update_window_dims=(1, 2),
        scatter_dims_to_operand_dims=(0, 1),
        index_vector_dim=1,
        combine="add",
    )
    check(op, [Type(I32, (6, 20)), Type(I32, (8, 2)), Type(I32, (8, 3, 18))], draw=draw)


def test_window_axes_before_batch_axes() -> None:
    """Row-major order of the updates decides which assignment is last."""
    op = Scatter(
        update_window_dims=(0,),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0, 1),
        index_vector_dim=1,
    )
    check(op, [Type(I32, (6, 9)), Type(I32, (14, 2)), Type(I32, (4, 14))], draw=draw)


@pytest.mark.parametrize("combine", ["assign", "add"])
def test_wide_windows_that_indices_move_along_their_rows(combine: str) -> None:
    """Columns of different updates meet, so an update is whole before the next begins."""
    op = Scatter(
        update_window_dims=(1,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        combine=combine,
    )

    def near(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
        return np.array([0, 300, 150]) if number == 1 else draw(type_, number, rng)

    types = [Type(I32, (1700,)), Type(I32, (3,)), Type(I32, (3, 1200))]
    check(op, types, draw=near, targets=(MASKED, PLAIN))


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I64, DType.U64])
def test_extreme_indices_are_dropped(dtype: DType) -> None:
    def extreme(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
        if number != 1:
            return draw(type_, number, rng)
        info = np.iinfo(dtype.numpy)
        return np.array([0, info.max, info.min, 3, info.max - 1, 2, 6], dtype.numpy)

    op = Scatter(
        update_window_dims=(1,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        combine="add",
    )
    check(op, [Type(I32, (7,)), Type(dtype, (7,)), Type(I32, (7, 2))], draw=extreme)


def test_unique_places_in_threads() -> None:
    def distinct(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
        return rng.permutation(20000).astype(np.int32) if number == 1 else draw(type_, number, rng)

    op = Scatter(
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
        unique=True,
    )
    check(
        op,
        [Type(I32, (20000,)), Type(I32, (20000,)), Type(I32, (20000,))],
        draw=distinct,
        targets=(MASKED,),
    )


def test_body_of_two_tensors() -> None:
    """Sums and largest values in one scatter."""
    names = [Node.of(Param(n, Type(F32), "input")) for n in "abcd"]
    a, b, c, d = names
    body = Graph(
        "both",
        tuple(names),
        {"s": Node.of(arithmetic.Add(), a, c), "m": Node.of(arithmetic.Max(), b, d)},
    )
    x, u = Type(F32, (7, 5)), Type(F32, (9, 5))
    check(Scatter(combine="body", body=body, **ROWS), [x, x, Type(I32, (9,)), u, u], draw=draw)


def test_producers_of_operand_and_updates_fuse() -> None:
    x, at, u = param("x", (7, 40)), param("i", (9,), I32), param("u", (9, 40))
    scattered = Node.of(Scatter(combine="add", **ROWS), build.add(x, 1.0), at, build.mul(u, 2.0))
    check_graph(graph_of(build.add(scattered, 1.0)))
