"""Which NaN comes of an operation that only moves values: in f32 and f64 the same, bit for bit; in
16 bits a NaN, at the same place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.order import Sort
from xlac.ops.scalar.comparison import Select
from xlac.ops.tensor.extend import Concat
from xlac_sdk.dtypes import DType

INFINITY: dict[DType, tuple[Any, int]] = {
    DType.F16: (np.uint16, 0x7C00),
    DType.BF16: (np.uint16, 0x7F80),
    DType.F32: (np.uint32, 0x7F800000),
    DType.F64: (np.uint64, 0x7FF << 52),
}
SHAPE = 6, 40


def moves(dtype: DType) -> Graph:
    x, c = build.param("x", dtype, SHAPE), build.param("c", DType.BOOL, SHAPE)
    y = build.param("y", dtype, SHAPE)
    turned = build.apply1("transpose", x, perm=(1, 0))
    outputs = {
        "turned": turned,
        "joined": Node.of(Concat(0), x, y),
        "chosen": Node.of(Select(), c, x, y),
        "taken": build.take(x, build.constant(np.array([4, 0, 5])), 0),
        "cut": build.cut(x, 1, 3, 29),
        "up": Node.of(Sort(axis=1), x),
        "down": Node.of(Sort(axis=1, descending=True), x),
        "first": Node.of(Sort(axis=1, kept=3), x),
        "long": Node.of(Sort(axis=0), build.reshape(x, (240,))),
    }
    return Graph("moves", (x, y, c), outputs)


@pytest.mark.parametrize("target", ["reference", "c", "cpu"])
@pytest.mark.parametrize("dtype", INFINITY, ids=str)
def test_nans_that_are_moved(dtype: DType, target: str) -> None:
    kind, infinity = INFINITY[dtype]
    numbers = np.random.default_rng(7)
    x, y = numbers.integers(0, np.iinfo(kind).max, (2, *SHAPE), kind, endpoint=True)
    x = np.where(numbers.random(SHAPE) < 0.4, x | kind(infinity), x)
    given = x.view(dtype.numpy), y.view(dtype.numpy), numbers.random(SHAPE) < 0.5
    program, wanted = xlac.compile(Model(moves(dtype), {}), target), _moved(*given)
    for name, found in program(*given).items():
        assert _alike(found, wanted[name], kind, dtype), name


def _moved(x: Any, y: Any, c: Any) -> dict[str, Any]:
    """What NumPy gives, moving elements by their places."""
    ups = np.argsort(_order(x), axis=1, kind="stable")
    downs = np.argsort(-_order(x), axis=1, kind="stable")
    flat = x.reshape(-1)
    return {
        "turned": x.T,
        "joined": np.concatenate([x, y]),
        "chosen": np.where(c, x, y),
        "taken": x[[4, 0, 5]],
        "cut": x[:, 3:29],
        "up": np.take_along_axis(x, ups, 1),
        "down": np.take_along_axis(x, downs, 1),
        "first": np.take_along_axis(x, ups, 1)[:, :3],
        "long": flat[np.argsort(_order(flat), kind="stable")],
    }


def _order(x: Any) -> Any:
    """Ranks: all NaN are equal and last, both zeros are equal."""
    with np.errstate(invalid="ignore"):  # of signalling NaN
        wide = x.astype(np.float64)
    _, ranks = np.unique(wide, return_inverse=True, equal_nan=True)
    return ranks.reshape(x.shape)


def _alike(found: Any, wanted: Any, kind: Any, dtype: DType) -> bool:
    """Bit for bit, but for NaN in 16 bits, which are NaN in both."""
    same = np.ascontiguousarray(found).view(kind) == np.ascontiguousarray(wanted).view(kind)
    if dtype in (DType.F16, DType.BF16):
        same |= np.isnan(found.astype(np.float32)) & np.isnan(wanted.astype(np.float32))
    return bool(same.all())
