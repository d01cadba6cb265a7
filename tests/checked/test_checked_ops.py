"""Every operation, checked, in the interpreter: NaN and infinity that appear, indices out of range,
division by zero.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from xlac.ir.composite import Composite
from xlac.ir.faults import INFINITY, NAN
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Array, Op, Sample, ShapeError
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.sampling import draw
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.formula import Formula
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.leaf import Param
from xlac.ops.values import results
from xlac.passes.checks.insert import watched
from xlac.support.failures import WORDS, Check
from xlac_sdk.dtypes import DType

STRUCTURAL = {*"param const pick cond while scan call custom_call bounded_while counted_scan custom_gradient custom_change".split()}  # fmt: skip
NAMES = sorted(set(OPS) - STRUCTURAL)
FLOATS = [n for n in NAMES if any(t.dtype.is_float for s in OPS[n].samples() for t in s.inputs)]
HARD = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -2.5, np.inf, -np.inf, 1e30, -1e30, 7e4, 1e-30)
LARGEST = 3000  # elements of an operand


def model_of(op: Op, *types: Type) -> Model:
    params = tuple(Node.of(Param(f"x{n}", t)) for n, t in enumerate(types))
    made = results(Node.of(op, *params))
    return Model(Graph("one", params, {f"y{n}": node for n, node in enumerate(made)}), {})


def run(
    model: Model, arrays: tuple[Array, ...], *kinds: str
) -> tuple[Check | None, tuple[int, ...]]:
    """What a checked model reports, once its results are seen to be those of the unchecked one."""
    given = {f"x{n}": a for n, a in enumerate(arrays)}
    with np.errstate(all="ignore"):
        plain = interpret(model.graph, given)
        made = watched(model, kinds)
        found = interpret(made.graph, given)
    for name, array in plain.items():
        assert found[name].tobytes() == array.tobytes(), name
    if made is model:
        return None, ()
    record = list(found.values())[-1]
    assert record.shape == (WORDS,)
    number = int(record[0])
    return (made.checks[number - 1] if number else None), tuple(map(int, record[1:]))


def appears(array: Array, kind: str) -> Array:
    wide = np.asarray(array).astype(np.float64)
    return np.isnan(wide) if kind == NAN else np.isinf(wide)


def small(name: str) -> Iterator[Sample]:
    for sample in OPS[name].samples():
        if any(t.dtype.is_float for t in sample.inputs) and all(
            isinstance(t.size, int) and t.size <= LARGEST for t in sample.inputs
        ):
            yield sample


def drawn(sample: Sample, seed: str, holes: bool) -> tuple[Array, ...]:
    """Operands with hard values and, for `holes`, one NaN; the others are small numbers."""
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    arrays = []
    for array in draw(sample):
        if DType.of(array.dtype).is_float and array.size:
            with np.errstate(all="ignore"):
                array = np.array(
                    rng.uniform(0.5, 2, array.shape) if holes else rng.choice(HARD, array.shape)
                ).astype(array.dtype)
            if holes:
                array.reshape(-1)[rng.integers(array.size)] = np.nan
        arrays.append(array)
    return tuple(arrays)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("kind", [NAN, INFINITY])
@pytest.mark.parametrize("name", FLOATS)
def test_what_appears_is_found_and_nothing_else(name: str, kind: str) -> None:
    """Also says whether an operation creates more than it declares."""
    for number, sample in enumerate(list(small(name))[:6]):
        for holes in (False, True):
            op, arrays = (
                OPS[name](**sample.attributes),
                drawn(sample, f"{name}{number}{kind}", holes),
            )
            with np.errstate(all="ignore"):
                made = op.evaluate(*arrays)
            wanted: int | None = None
            floats = [a for a in arrays if DType.of(a.dtype).is_float]
            for result in made if isinstance(made, tuple) else (made,):
                result = np.asarray(result)
                if not DType.of(result.dtype).is_float or wanted is not None:
                    continue
                bad = appears(result, kind)
                if isinstance(op, Scalar | Cast | Formula):
                    for a in floats:
                        bad = bad & ~np.broadcast_to(appears(a, kind), bad.shape)
                elif any(appears(a, kind).any() for a in floats):
                    bad = np.zeros_like(bad)
                if bad.any():
                    wanted = int(np.flatnonzero(bad)[0])
            check, record = run(model_of(op, *sample.inputs), arrays, kind)
            assert (check is None) == (wanted is None), (sample, holes, check)
            if check is not None:
                assert (check.kind, record[0]) == (kind, wanted), sample


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
WHOLE = [d for d in DType if d.is_integer]


@pytest.mark.sampled(8)
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
    assert declared == {*INDEXED, *DIVIDING, "pow", "cond", "iota", "dim_size"}
