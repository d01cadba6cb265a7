"""Making nodes as users write them, and what mistakes are told."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from op_values import BF16, BOOL, F16, F32, I8, I32, I64, U8, U32, U64, value

from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.scalar.convert import Cast
from xlac_sdk.dtypes import DType


@pytest.mark.parametrize(
    "a, b, wanted",
    [(F32, F32, F32), (F32, F16, F32), (F16, BF16, F32), (F16, I64, F16), (BOOL, I8, I8),
     (BOOL, F16, F16), (I8, I32, I32), (U8, U32, U32),
     (I8, U8, DType.I16), (I32, U32, I64), (I64, U32, I64), (BOOL, BOOL, BOOL),
     (F32, DType.F64, DType.F64)],
)  # fmt: skip
def test_promotion(a: DType, b: DType, wanted: DType) -> None:
    assert build.promote(a, b) is wanted and build.promote(b, a) is wanted


def test_no_integer_holds_i64_and_u64() -> None:
    with pytest.raises(ShapeError, match="no integer type holds both"):
        build.promote(I64, U64)


@pytest.mark.parametrize(
    "dtype, number, wanted",
    [
        (F16, 1, F16),
        (F16, 1.5, F16),
        (I8, 1, I8),
        (I8, 1.5, F32),
        (I64, 2.0, F32),
        (BOOL, 1, I32),
        (BOOL, 0.5, F32),
        (BOOL, True, BOOL),
        (F32, True, F32),
    ],
)
def test_numbers_are_weak(dtype: DType, number: float, wanted: DType) -> None:
    x = build.param("x", dtype, (3,))
    assert build.promoted([x, number]) is wanted


def test_a_number_that_does_not_fit() -> None:
    with pytest.raises(ShapeError, match="300 does not fit i8"):
        build.add(build.param("x", I8), 300)


def test_broadcasting() -> None:
    B = symbol("B", 1, 8)
    assert build.broadcast_shapes([(3, 1), (4,)]) == (3, 4)
    assert build.broadcast_shapes([(B, 1), (1, 5), ()]) == (B, 5)
    assert build.broadcast_shapes([(0, 1), (3,)]) == (0, 3)
    with pytest.raises(ShapeError, match=r"\[B\] and \[3\] do not broadcast"):
        build.broadcast_shapes([(B,), (3,)])


def test_reshape_finds_what_is_left() -> None:
    B = symbol("B", 1, 8)
    x = build.param("x", F32, (B, 2, 6))
    assert build.reshape(x, (-1, 4)).shape == (B * 3, 4)
    assert build.reshape(x, (B, -1)).shape == (B, 12)
    unknown = "whether 12\\*B elements divide into {} is unknown"
    for shape, why in (
        ((5, -1), unknown.format(5)),
        ((B + 1, -1), unknown.format("B \\+ 1")),
        ((0, -1), "do not divide into 0"),
    ):
        with pytest.raises(ShapeError, match=why):
            build.reshape(x, shape)
    with pytest.raises(ShapeError, match="12 elements do not divide into 5"):
        build.reshape(build.param("x", F32, (2, 6)), (5, -1))


def test_python_indexing() -> None:
    array = np.arange(60).reshape(3, 4, 5)
    x = build.param("x", I64, (3, 4, 5))
    picks = np.array([[0, -1], [2, 1]])
    keys: list[Any] = [
        0,
        -1,
        (1, 2, 3),
        slice(1, None),
        (slice(None, None, -1),),
        (Ellipsis, -2),
        (slice(1, 9, 2), None, 2),
        (None, Ellipsis, None),
        slice(2, 1),
        (slice(-2, -1), slice(None, None, -2)),
    ]
    for key in keys:
        np.testing.assert_array_equal(value(build.index(x, key), x=array), array[key])
    for position in range(3):
        key: list[Any] = [slice(None)] * 3
        key[position] = picks
        nodes = [build.constant(picks) if k is picks else k for k in key]
        np.testing.assert_array_equal(
            value(build.index(x, tuple(nodes)), x=array), array[tuple(key)]
        )
    for key in (3, (0, 0, 0, 0), -4, "a"):
        with pytest.raises(ShapeError):
            build.index(x, key)
    B = symbol("B", 2, 8)
    y = build.param("y", F32, (B, 3))
    assert (
        build.index(y, -1).shape == (3,)
        and build.index(y, slice(1, None)).shape == (B - 1, 3)
        and build.index(y, slice(None, -1)).shape == (B - 1, 3)
    )


def test_slices_as_python_writes_them() -> None:
    x = build.param("x", I64, (7,))
    for start, stop, step in itertools.product(
        (0, 2, -3, 9, -9), (0, 5, -1, 9, -9), (1, 2, -1, -3)
    ):
        node = build.apply1("slice", x, starts=start, stops=stop, steps=step)
        np.testing.assert_array_equal(value(node, x=np.arange(7)), np.arange(7)[start:stop:step])


@pytest.mark.parametrize(
    "name, operands, attributes, message",
    [
        ("add", ((3, 4), (3, 5)), {}, r"shapes \[3, 4\] and \[3, 5\] do not broadcast: 4 meets 5"),
        (
            "matmul",
            ((3, 4), (5, 6)),
            {},
            r"f32\[3, 4\] has rows of 4, f32\[5, 6\] has columns of 5",
        ),
        ("softmax", ((3, 4),), {"axis": 2}, "axis 2 is out of range for a tensor of rank 2"),
        (
            "concat",
            ((3, 4), (4, 4)),
            {"axis": 1},
            r"all other extents equal, got f32\[3, 4\] and f32\[4, 4\]",
        ),
        ("reshape", ((3, 4),), {"shape": (5, 2)}, "12 elements to"),
        (
            "linear",
            ((3, 4), (7, 5), (7,)),
            {"units": 7},
            r"weight of linear is f32\[7, 4\], got f32\[7, 5\]",
        ),
        (
            "conv2d",
            ((1, 3, 8, 8), (4, 2, 3, 3), (4,)),
            {"filters": 4, "kernel": 3},
            r"weight of conv2d is f32\[4, 3, 3, 3\]",
        ),
        (
            "conv2d",
            ((1, 3, 8), (4, 3, 3, 3), (4,)),
            {"filters": 4, "kernel": 3},
            "needs a tensor of rank 4",
        ),
        (
            "attention",
            ((1, 5, 10), (1, 5, 10), (1, 5, 10)),
            {"heads": 3},
            "10 does not divide into 3 heads",
        ),
        ("split", ((7, 2),), {"parts": 2}, "7 slices of axis 0 do not divide into 2 parts"),
        ("topk", ((3,),), {"k": 4}, "there are no 4 elements"),
        ("transpose", ((3, 4),), {"perm": (0, 0)}, "names an axis twice"),
        ("exp", ((3,), (3,)), {}, "takes 1 operands, got 2"),
        (
            "max_pool2d",
            ((1, 1, 8, 8),),
            {"kernel": 2, "pad": 2},
            "padding 2 is wider than the window",
        ),
        ("einsum", ((2, 3), (4, 5)), {"equation": "ij,jk"}, "'j' in 'ij,jk' is 3 and 4"),
    ],
)
def test_mistakes_name_both_shapes(
    name: str, operands: Any, attributes: dict[str, Any], message: str
) -> None:
    params = [build.param(f"x{n}", F32, shape) for n, shape in enumerate(operands)]
    with pytest.raises(ShapeError, match=message):
        build.apply(name, *params, **attributes)


@pytest.mark.parametrize("name", ["exp", "tanh", "gelu", "mean", "softmax"])
def test_functions_of_floats_take_integers(name: str) -> None:
    x = build.param("x", I32, (3,))
    if name == "softmax":  # a softmax of class numbers is a mistake
        with pytest.raises(ShapeError, match="takes floats"):
            build.apply(name, x)
    else:
        assert build.apply1(name, x).type == Type(F32, () if name == "mean" else (3,))


def test_several_results_are_a_tuple() -> None:
    x = build.param("x", F32, (6,))
    found = build.apply("split", x, parts=3)
    assert isinstance(found, tuple) and [n.shape for n in found] == [(2,)] * 3
    assert isinstance(build.apply("split", x, parts=1), Node)


def test_constants_are_equal_by_their_bits() -> None:
    a, b = build.constant([1.0, float("nan")]), build.constant([1.0, float("nan")])
    assert a.op == b.op and hash(a.op) == hash(b.op)
    assert build.constant(0.0).op != build.constant(-0.0).op
    assert build.constant(1.0).op != build.constant(1).op
    assert Cast(F32) == Cast(F32) and Cast(F32) != Cast(F16)
    with pytest.raises(ValueError, match="read-only"):
        a.op.value[0] = 2  # type: ignore[attr-defined]


def test_a_node_is_shown_in_a_line_however_much_it_reads() -> None:
    x = build.param("x", DType.F32, (3,))
    for _ in range(200):  # each reads the one before it twice
        x = build.add(x, x)
    assert repr(x) == "<Node: add(add f32[3], add f32[3]) f32[3]>"
