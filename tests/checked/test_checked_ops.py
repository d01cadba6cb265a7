"""Every operation that indexes or divides, checked: indices out of range and integers divided by
zero are found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from checked_runs import NAMES, WHOLE, model_of, run

from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS, Array, Op, ShapeError
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

# ---- indices ---------------------------------------------------------------------------------

Outside = Callable[..., Array]


def at(low: int, high: int, operand: int = 1) -> Outside:
    return lambda *arrays: (
        (arrays[operand].astype(object) < low) | (arrays[operand].astype(object) > high)
    )


F = DType.F32
ROWS = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 5),
}
PLACES = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}
NEITHER = frozenset(
    {
        "gather",
        "scatter",
        "dyn_slice",
        "dyn_update",
        "gather_nd",
        "scatter_nd",
        "embedding",
        "one_hot",
        "attention_with_cache",
    }
)
INDEXED: dict[str, tuple[list[tuple[int, ...]], int, dict[str, Any], int]] = {
    # shapes of the operands (floats but the one of indices, whose number follows), attributes, how
    # many there are to choose from
    "gather": ([(7, 5), (4,)], 1, ROWS, 7),
    "scatter": ([(7, 5), (4,), (4, 5)], 1, {**PLACES, "combine": "add"}, 7),
    "dyn_slice": ([(7,), ()], 1, {"sizes": (3,)}, 5),
    "dyn_update": ([(7,), (3,), ()], 2, {}, 5),
    "take": ([(7, 5), (2, 3)], 1, {"axis": 0}, 7),
    "take_along_axis": ([(3, 7), (3, 4)], 1, {}, 7),
    "gather_nd": ([(7, 5), (3, 1)], 1, {}, 7),
    "scatter_nd": ([(7, 5), (3, 1), (3, 5)], 1, {}, 7),
    "scatter_elements": ([(7,), (4,), (4,)], 1, {}, 7),
    "scatter_add": ([(7,), (4,), (4,)], 1, {}, 7),
    "embedding": ([(4,), (7, 5)], 0, {"count": 7, "dim": 5}, 7),
    "one_hot": ([(4,)], 0, {"depth": 7}, 7),
    "cross_entropy": ([(3, 7), (3,)], 1, {}, 7),
    "softmax_cross_entropy": ([(3, 7), (3,)], 1, {}, 7),
    "nll_loss": ([(3, 7), (3,)], 1, {}, 7),
    "attention_with_cache": ([(2, 3, 1, 8)] * 3 + [(2, 3, 7, 8)] * 2 + [()], 5, {}, 7),
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", INDEXED)
def test_an_index_out_of_range_is_found(name: str, dtype: DType) -> None:
    shapes, place, attributes, count = INDEXED[name]
    op = OPS[name](**attributes)
    types = [Type(dtype if n == place else F, shape) for n, shape in enumerate(shapes)]
    model, rng = model_of(op, *types), np.random.default_rng(5)
    info, least = np.iinfo(dtype.numpy), 0 if name in NEITHER or not dtype.is_signed else -count
    values = {
        v
        for v in (least, least - 1, -1, 0, count - 1, count, int(info.min), int(info.max))
        if info.min <= v <= info.max
    }
    for value in sorted(values):
        arrays = [rng.uniform(0.5, 1, s).astype(np.float32) for s in shapes]
        arrays[place] = np.asarray(rng.integers(0, count, shapes[place]), dtype.numpy)
        last = arrays[place].size - 1
        arrays[place] = arrays[place].copy()
        arrays[place].reshape(-1)[last] = value
        check, record = run(model, tuple(arrays), "bounds")
        if least <= value < count:
            assert check is None, value
        else:
            assert check is not None, value
            shown = check.failed(*record)
            assert check.kind == "bounds" and record[0] == last, value
            assert shown.value == value and str(value) in str(shown), (value, str(shown))


def test_a_row_that_a_permutation_names() -> None:
    op = OPS["lu_solve"]()
    model = model_of(op, Type(F, (3, 3)), Type(DType.I32, (3,)), Type(F, (3, 2)))
    packed, b = np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)
    assert run(model, (packed, np.asarray([2, 0, 1], np.int32), b), "bounds")[0] is None
    check, record = run(model, (packed, np.asarray([0, 3, 1], np.int32), b), "bounds")
    assert check is not None and str(check.failed(*record).value) == "3"


def test_an_index_into_several_axes() -> None:
    op = OPS["gather_nd"]()
    model = model_of(op, Type(F, (7, 5)), Type(DType.I32, (3, 2)))
    x = np.zeros((7, 5), np.float32)
    assert run(model, (x, np.asarray([[6, 4], [0, 0], [1, 1]], np.int32)), "bounds")[0] is None
    check, record = run(model, (x, np.asarray([[6, 4], [4, 5], [1, 9]], np.int32)), "bounds")
    assert (
        check is not None
        and check.failed(*record).position == (1, 1)
        and check.failed(*record).value == 5
    )


def test_indices_of_compact_stand_for_nothing() -> None:
    mask = Node.of(Param("x0", Type(DType.BOOL, (7,))))
    table = Node.of(Param("x1", Type(F, (7,))))
    places, _ = results(Node.of(OPS["compact"](bound=7), mask))
    node = Node.of(OPS["take"](), table, places)
    model = Model(Graph("one", (mask, table), {"y": node}), {})
    assert run(model, (np.zeros(7, np.bool_), np.zeros(7, np.float32)), "bounds")[0] is None


# ---- division --------------------------------------------------------------------------------

# whether the least by -1 overflows
DIVIDING = {"div": True, "floor_divide": True, "rem": False, "mod": False}


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", DIVIDING)
def test_integer_division(name: str, dtype: DType) -> None:
    least = np.iinfo(dtype.numpy).min
    for y, wanted in ((0, True), (-1, DIVIDING[name]), (3, False)):
        if y < 0 and not dtype.is_signed:
            continue
        x = np.asarray([5, least, 7], dtype.numpy)
        by = np.asarray([2, y, 1], dtype.numpy)
        check, record = run(model_of(OPS[name](), *[Type(dtype, (3,))] * 2), (x, by), "division")
        assert (check is not None) == wanted, y
        assert check is None or record[0] == 1


@pytest.mark.parametrize("dtype", [d for d in WHOLE if d.is_signed])
def test_zero_to_a_negative_power(dtype: DType) -> None:
    model = model_of(OPS["pow"](), *[Type(dtype, (3,))] * 2)
    x = np.asarray([2, 0, 0], dtype.numpy)
    assert run(model, (x, np.asarray([-1, 0, 2], dtype.numpy)), "division")[0] is None
    check, record = run(model, (x, np.asarray([-1, 0, -2], dtype.numpy)), "division")
    assert check is not None and record[:2] == (2, -2)


def test_sizes() -> None:
    model = model_of(OPS["iota"](shape=(300,), dtype=DType.U8))
    check, record = run(model, (), "sizes")
    assert check is not None and check.failed(*record).value == 299
    assert run(model_of(OPS["iota"](shape=(256,), dtype=DType.U8)), (), "sizes")[0] is None


# ---- nothing is forgotten --------------------------------------------------------------------

READING = {"gather", "scatter", "dyn_slice", "dyn_update"}
SAFE = {
    "resize", "grid_sample",  # positions that they compute, and clamp or mask, themselves
    "decode_float",  # the low bits count
    "topk", "argsort", "argmax", "argmin", "cummax", "cummin",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(n for n in NAMES if issubclass(OPS[n], Composite)))
def test_a_composite_that_indexes_by_an_operand_says_so(name: str) -> None:
    """Its expansion reads at, or divides by, what an integer operand says: then it declares what
    that may not be.
    """
    if name in SAFE or OPS[name].faults is not Op.faults:
        return
    for sample in OPS[name].samples()[:4]:
        params = tuple(Node.of(Param(f"x{n}", t)) for n, t in enumerate(sample.inputs))
        if not any(t.dtype.is_integer for t in sample.inputs):
            continue
        try:
            made = OPS[name](**sample.attributes).expand(*params)  # type: ignore[attr-defined]
        except ShapeError:
            continue
        for node in Graph(
            "", (), {str(n): v for n, v in enumerate(made if isinstance(made, tuple) else (made,))}
        ).order:
            first = {
                "gather": 1,
                "scatter": 1,
                "dyn_slice": 1,
                "dyn_update": 2,
                "div": 1,
                "rem": 1,
            }.get(node.op.mnemonic)
            if first is not None and node.inputs[first].type.dtype.is_integer:
                inner = Graph("", (), {str(n): v for n, v in enumerate(node.inputs[first:])})
                assert not any(isinstance(n.op, Param) for n in inner.order), (
                    f"{name} reads or divides by its operand"
                )


def test_every_operation_with_faults_is_in_these_tables() -> None:
    declared = {n for n in OPS if OPS[n].faults is not Op.faults}
    assert declared == {*INDEXED, *DIVIDING, "pow", "cond", "iota", "dim_size", "lu_solve"}
