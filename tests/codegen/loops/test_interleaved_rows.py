"""Iterations of parallel loops side by side: to the bit what they are one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from loops_harness import MASKED, graph_of, param

import xlac
from xlac.codegen.claims import kind_taken
from xlac.codegen.lower import lower
from xlac.fusion.partition import partition
from xlac.ir.graph import Node
from xlac.ops import build as ops
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import compile_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Allocate, Buffer, If, Kernel, Space, Store, Var, statements
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.interleave import interleaved
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.target import Target


def softmax(rows: int, columns: int, target: Target = MASKED) -> Kernel:
    return kernel_of(ops.apply1("softmax", param("x", (rows, columns))), target)


def kernel_of(result: Node, target: Target = MASKED) -> Kernel:
    (group,) = partition(graph_of(result), target, kind_taken=kind_taken).groups
    (launch,) = lower(group, target, "k").launches
    return legalize(launch.kernel, target)


def run(kernel: Kernel, x: np.ndarray, *sizes: int) -> np.ndarray:
    verify(kernel)
    y = np.full(x.shape, 99, x.dtype)
    with np.errstate(all="ignore"):
        compile_kernel(kernel)(x.reshape(-1), y.reshape(-1), *sizes)
    return y


def rows_at_once(kernel: Kernel) -> int:
    """Stores of the body that is run for whole groups of rows, for each one of a row."""
    loop = kernel.parallel
    assert loop is not None
    body = loop.body[0].then if isinstance(loop.body[0], If) else loop.body
    return sum(isinstance(stmt, Store) for stmt in statements(body))


@pytest.mark.parametrize("columns", [9, 16, 30, 48, 64, 100, 128, 256])
@pytest.mark.parametrize("rows", [1000, 1001, 1007])
@pytest.mark.sampled(12)
def test_results_stay_the_same_to_the_bit(rows: int, columns: int) -> None:
    kernel = softmax(rows, columns)
    x = np.random.default_rng(columns).standard_normal((rows, columns)).astype(np.float32)
    x[3, 1], x[5], x[-1, 0] = np.nan, -np.inf, np.inf
    together = interleaved(kernel, MASKED)
    assert rows_at_once(together) >= 2 * rows_at_once(kernel)
    np.testing.assert_array_equal(run(together, x), run(kernel, x))


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 1000])
def test_an_open_number_of_rows(rows: int) -> None:
    """The last rows, fewer than are run at once, are run by themselves."""
    kernel, n = softmax(1000, 9), Var("n", build.INDEX, low=0)
    loop = kernel.parallel
    assert loop is not None
    counter = replace(loop.counter, high=None, below=n)
    open_ = replace(kernel, sizes=(n,), body=(replace(loop, counter=counter, stop=n),))
    x = np.random.default_rng(rows).standard_normal((1000, 9)).astype(np.float32)
    together = interleaved(open_, MASKED)
    assert rows_at_once(together) > rows_at_once(kernel)
    np.testing.assert_array_equal(run(together, x, rows), run(open_, x, rows))


def test_the_stack_is_not_filled() -> None:
    """Rows whose local buffer takes the room of all are not multiplied."""
    kernel = softmax(1000, 9)
    loop = kernel.parallel
    assert loop is not None and rows_at_once(interleaved(kernel, MASKED)) > rows_at_once(kernel)
    large = Allocate(Buffer("large", DType.F32, 5 << 10, Space.LOCAL))
    filled = replace(kernel, body=(replace(loop, body=(large, *loop.body)),))
    assert interleaved(filled, MASKED) is filled


def test_what_rows_share_counts_once() -> None:
    """A norm's weights are read by all rows, so as many rows are run at once as without."""
    x, w = param("x", (2000, 16)), param("w", (16,))
    norm = ops.apply1("rms_norm", x, w)
    kernel = kernel_of(norm)
    assert rows_at_once(interleaved(kernel, MASKED)) == 12 * rows_at_once(kernel)


@pytest.mark.parametrize("dtype", [DType.U8, DType.I16, DType.F16])
def test_rows_that_are_stored_narrow_count_as_what_they_become(dtype: DType) -> None:
    """Registers hold the floats that are computed, so no more rows are run at once than of f32."""

    def rows(stored: DType) -> int:
        x = ops.cast(param("x", (1000, 256), stored), DType.F32)
        return rows_at_once(interleaved(kernel_of(ops.apply1("softmax", x)), MASKED))

    assert 1 < rows(dtype) <= rows(DType.F32)


@pytest.mark.parametrize(
    "target",
    [
        replace(MASKED, vector_registers=8),
        replace(MASKED, vector_bytes=16),
        replace(MASKED, size=True),
    ],
    ids=["few registers", "narrow ones", "small code"],
)
def test_other_targets_keep_their_loops(target: Target) -> None:
    kernel = softmax(1000, 16, target)
    assert interleaved(kernel, target) is kernel


def test_long_rows_and_loops_without_folds_are_kept() -> None:
    long = softmax(100, 1000)
    assert interleaved(long, MASKED) is long
    sums = kernel_of(ops.add(param("x", (1000, 1000)), param("y", (1000, 1000))))
    assert interleaved(sums, MASKED) is sums


@pytest.mark.parametrize(("columns", "rows"), [(9, 12), (30, 6), (64, 3), (100, 2), (256, 3)])
def test_rows_share_the_registers(columns: int, rows: int) -> None:
    """Twelve registers hold rows of 9, 30 and 64 floats, or a turn of their loop; sixteen two."""
    kernel = softmax(1000, columns)
    assert rows_at_once(interleaved(kernel, MASKED)) == rows * rows_at_once(kernel)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rows", [2, 240, 1001])
@pytest.mark.parametrize("sizes", ["specialize", "symbolic"])
@pytest.mark.sampled(8)
def test_threads_share_the_loop_that_was_written(
    rows: int, threads: int, sizes: Literal["specialize", "symbolic"], tmp_path: Path
) -> None:
    """Nothing is written beyond the last row: a launch, too, counts groups of rows. It counted
    rows, of which each thread then wrote as many groups.
    """
    shape = "n, 30" if sizes == "symbolic" else f"{rows}, 30"
    spec = tmp_path / "rows.yaml"
    spec.write_text(
        "xlac: 1\nmodel: rows\ndims: {n: {min: 1, max: 1024}}\n"
        f"inputs: {{x: 'f32[{shape}]'}}\n"
        "graph: {y: 'softmax(x, axis=-1)', z: 'logsumexp(x, axis=-1)'}\noutputs: [y, z]\n"
    )
    model = xlac.compile(spec, target="cpu", threads=threads, sizes=sizes)
    x = np.random.default_rng(rows).standard_normal((rows, 30)).astype(np.float32)
    y, z = (np.full(3 * size, 99, np.float32) for size in (rows * 30, rows))
    out = {"y": y[: rows * 30].reshape(rows, 30), "z": z[:rows]}
    for _ in range(8):
        model.run({"x": x}, out=out)
    wanted = np.exp(x - x.max(-1, keepdims=True))
    np.testing.assert_allclose(out["y"], wanted / wanted.sum(-1, keepdims=True), 1e-5)
    assert (y[rows * 30 :] == 99).all() and (z[rows:] == 99).all()
