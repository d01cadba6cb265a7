"""Running combinations and compaction against their meaning."""

from __future__ import annotations

import numpy as np
import pytest
from loops_harness import MASKED, PLAIN, SCALAR, WIDE, check_graph, graph_of, param
from order_harness import check, check_sample, label

from xlac.ir.graph import Node
from xlac.ir.op import Sample
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.tensor.dynamic import Compact
from xlac_sdk.dtypes import DType

SMALL = [s for s in Cumulative.samples() if s.inputs[0].size < 1000]


def plain(type_: Type, number: int, rng: np.random.Generator) -> np.ndarray:
    if type_.dtype is DType.BOOL:
        return rng.random(type_.shape) < 0.5
    return rng.integers(0 if not type_.dtype.is_signed else -3, 4, type_.shape).astype(
        type_.dtype.numpy
    )


@pytest.mark.parametrize("sample", SMALL, ids=label)
def test_samples(sample: Sample) -> None:
    check_sample(
        Cumulative, sample, draw=plain, rtol=1e-2 if sample.inputs[0].dtype.is_half else 1e-5
    )


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axes_and_directions(axis: int, exclusive: bool, reverse: bool) -> None:
    op = Cumulative(axis=axis, combine="add", reverse=reverse, exclusive=exclusive)
    check(op, [Type(DType.I32, (3, 5, 37))], targets=(SCALAR, MASKED, PLAIN, WIDE))


@pytest.mark.parametrize("combine", list(numeric.COMBINE))
@pytest.mark.parametrize("dtype", [DType.I32, DType.U8, DType.F32, DType.BOOL])
def test_combinations(combine: str, dtype: DType) -> None:
    bits = combine in ("and", "or", "xor")
    if bits == dtype.is_float or (dtype is DType.BOOL and not bits):
        pytest.skip("not defined")
    check(Cumulative(axis=0, combine=combine, exclusive=True), [Type(dtype, (9, 21))], draw=plain)


def test_nan_spreads() -> None:
    check(Cumulative(axis=0, combine="max"), [Type(DType.F32, (9, 21))])


def test_many_columns_in_threads() -> None:
    check(Cumulative(axis=0, combine="add"), [Type(DType.I32, (40, 2999))], targets=(MASKED, PLAIN))


def test_producers_are_computed_where_they_are_read() -> None:
    x = param("x", (5, 33))
    graph = graph_of(Node.of(Cumulative(axis=0, combine="add"), build.mul(x, 2.0)))
    check_graph(graph)


@pytest.mark.parametrize(
    "sample", [s for s in Compact.samples() if s.inputs[0].size < 1000], ids=label
)
def test_compact(sample: Sample) -> None:
    check_sample(Compact, sample, draw=plain)


def test_compact_of_three_axes() -> None:
    check(Compact(bound=17), [Type(DType.BOOL, (3, 4, 5))], draw=plain)
