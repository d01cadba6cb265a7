"""Sorts, scatters, running combinations and compactions: what depends on order comes out in order,
whatever the shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_harness import SMALL, agree, lowered, param, run

from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.order import Sort
from xlac.ops.tensor.dynamic import Compact
from xlac.ops.tensor.scatter import Scatter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Store, statements
from xlac_sdk.programs.program import Program


def picked(node: Node) -> list[Node]:
    return [Node(Pick(index=k), (node,), t) for k, t in enumerate(node.results)]


# ---- sorts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1,), 0),
        ((2,), 0),
        ((37,), 0),
        ((5, 9), 1),
        ((9, 5), 0),
        ((70, 3), 1),
        ((3, 4, 5), 1),
        ((513,), 0),
        ((2, 1100), 1),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.sampled(6)
def test_sorts_are_stable(shape: tuple[int, ...], axis: int, descending: bool) -> None:
    """The position that each of many equal keys came from tells whether they kept their order."""
    keys, positions = param("keys", shape, DType.I32), param("positions", shape, DType.I32)
    rng = np.random.default_rng(0)
    feeds = {
        "keys": rng.integers(0, 9, shape).astype(np.int32),
        "positions": np.arange(np.prod(shape), dtype=np.int32).reshape(shape),
    }
    agree(
        *picked(
            Node.of(Sort(axis=axis, descending=descending, keys=1, stable=True), keys, positions)
        ),
        feeds=feeds,
    )


def test_nan_is_last() -> None:
    x = param("x", (100,))
    values = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    values[::7], values[::11], values[::13] = np.nan, np.inf, -np.inf
    agree(Node.of(Sort(axis=0, keys=1), x), feeds={"x": values})


@pytest.mark.parametrize("count", [0, 1, 5, 512, 513, 1030])
@pytest.mark.sampled(2)
def test_sorts_of_open_length(count: int) -> None:
    agree(
        Node.of(Sort(axis=0, keys=1), param("x", (symbol("n", 0, 2000, 512),))), sizes={"n": count}
    )


# ---- scatters ------------------------------------------------------------------------------------

ROWS: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}


def rows_into(shape: tuple[int, int], count: int, dtype: DType, combine: str, **more: Any) -> Node:
    x, indices = param("x", shape, dtype), param("indices", (count,), DType.I32)
    return Node.of(
        Scatter(combine=combine, **ROWS, **more),
        x,
        indices,
        param("updates", (count, shape[1]), dtype),
    )


def places(count: int, rows: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Many equal ones, some out of range."""
    return np.random.default_rng(1).integers(-2, rows + 2, count).astype(np.int32)


@pytest.mark.parametrize("combine", ["assign", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [DType.I32, DType.F32, DType.BF16, DType.U8])
def test_scatters_of_equal_places(dtype: DType, combine: str) -> None:
    rng = np.random.default_rng(2)
    small = {
        n: rng.integers(0, 4, s).astype(dtype.numpy)
        for n, s in (("x", (6, 5)), ("updates", (40, 5)))
    }
    agree(rows_into((6, 5), 40, dtype, combine), feeds={**small, "indices": places(40, 6)})


def test_sums_of_floats_are_made_in_order() -> None:
    """The same to the bit every time, as blocks of sixteen in the order of the updates, and without
    atomics.
    """
    count, shape = 300, (3, 4)
    rng = np.random.default_rng(3)
    feeds = {"x": rng.standard_normal(shape).astype(np.float32), "indices": places(count, 3)}
    feeds["updates"] = (
        rng.standard_normal((count, 4)) * 10.0 ** rng.integers(-6, 6, (count, 4))
    ).astype(np.float32)
    program = lowered(rows_into(shape, count, DType.F32, "add"), target=SMALL).program
    wanted, sizes = feeds["x"].astype(np.float64), np.abs(feeds["x"]).astype(np.float64)
    for row, update in zip(feeds["indices"], feeds["updates"], strict=True):
        if 0 <= row < 3:
            wanted[row] += update
            sizes[row] += np.abs(update)
    first, second = (run(program, feeds)["o0"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert (np.abs(first - wanted) <= 18 * 2.0**-24 * sizes).all()
    assert not atomics(program)


def test_sums_of_integers_are_atomic() -> None:
    program = lowered(rows_into((3, 4), 300, DType.I32, "add"), target=SMALL).program
    assert len(program.kernels) == 1
    assert atomics(program)


def test_windows_that_overlap_are_combined_element_by_element() -> None:
    x, indices, updates = (
        param("x", (9,)),
        param("indices", (6, 1), DType.I32),
        param("updates", (6, 4)),
    )
    how = Scatter(
        combine="add",
        update_window_dims=(1,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )
    agree(
        Node.of(how, x, indices, updates),
        feeds={
            "x": np.zeros(9, np.float32),
            "indices": np.array([[0], [1], [3], [5], [6], [1]], np.int32),
            "updates": np.arange(24, dtype=np.float32).reshape(6, 4),
        },
    )


def atomics(program: Program) -> list[Store]:
    return [
        s
        for kernel in program.kernels
        for s in statements(kernel.body)
        if isinstance(s, Store) and s.atomic is not None
    ]


# ---- running combinations ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((1,), 0),
        ((0,), 0),
        ((65,), 0),
        ((256,), 0),
        ((257,), 0),
        ((2000,), 0),
        ((3, 300), 1),
        ((300, 3), 0),
        ((2, 90, 3), 1),
        ((40, 9), 1),
    ],
)
@pytest.mark.parametrize(
    ("combine", "reverse", "exclusive"),
    [("add", False, False), ("max", True, False), ("add", False, True), ("min", True, True)],
)
@pytest.mark.sampled(16)
def test_running_combinations(
    shape: tuple[int, ...], axis: int, combine: str, reverse: bool, exclusive: bool
) -> None:
    for dtype in (DType.F32, DType.I64, DType.BF16):
        agree(
            Node.of(
                Cumulative(axis=axis, combine=combine, reverse=reverse, exclusive=exclusive),
                param("x", shape, dtype),
            )
        )


@pytest.mark.parametrize("count", [0, 1, 64, 65, 256, 700])
def test_running_sums_of_open_length(count: int) -> None:
    x = param("x", (2, symbol("n", 0, 1000, 500)))
    agree(Node.of(Cumulative(axis=1, combine="add"), x), sizes={"n": count})


@pytest.mark.parametrize(
    ("size", "bound"), [(0, 3), (1, 1), (300, 300), (700, 50), (257, 1000), (512, 0)]
)
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_compactions(size: int, bound: int, density: float) -> None:
    mask = param("mask", (size,), DType.BOOL)
    feeds = {"mask": np.random.default_rng(0).random(size) < density}
    agree(
        *picked(
            Node(Compact(bound=bound), (mask,), (Type(DType.I64, (bound,)), Type(DType.I64, ())))
        ),
        feeds=feeds,
    )


@pytest.mark.parametrize("size", [0, 1, 255, 256, 600])
def test_compactions_of_open_length(size: int) -> None:
    mask = build.compare(param("x", (symbol("n", 0, 1000, 300),)), "gt", 0.0)
    agree(*picked(Node.of(Compact(bound=40), mask)), sizes={"n": size})
