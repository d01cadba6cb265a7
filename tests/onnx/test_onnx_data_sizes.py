"""Sizes that data decides: what is not there is trimmed, and operators say whether they take it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_cases import INT64, agree, model, ours, reference, value

import xlac
from xlac.frontends.onnx import load
from xlac_sdk.source import SourceError

node = helper.make_node


@pytest.mark.parametrize(
    "x",
    [
        np.asarray([[0, 1, 2], [3, 0, 0]], np.float32),
        np.zeros((2, 3), np.float32),
        np.ones((2, 3), np.float32),
    ],
)
def test_what_data_decides_is_trimmed(x: np.ndarray) -> None:
    proto = model([node("NonZero", ["x"], ["z"])], [value("x", [2, 3])], [value("z", None, INT64)])
    program = xlac.compile(proto)
    assert program.outputs == ("z",)
    np.testing.assert_array_equal(program(x=x), reference(proto, {"x": x})[0])
    room = {"z": np.empty((2, 6), np.int64), "z.size1": np.empty((), np.int64)}
    program.run({"x": x}, room)
    assert room["z.size1"] == np.count_nonzero(x)


def test_elementwise_operators_take_what_data_decides() -> None:
    nodes = [
        node("NonZero", ["x"], ["n"]),
        node("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["f", "two"], ["z"]),
        node("Shape", ["z"], ["s"]),
    ]
    proto = model(
        nodes,
        [value("x", [7])],
        [value("z", None), value("s", None, INT64)],
        {"two": np.asarray([2], np.float32)},
    )
    agree(proto, {"x": np.asarray([0, 1, 0, 2, 3, 0, 0], np.float32)})


def test_views_and_gathers_take_what_data_decides() -> None:
    """x[x > 1] in two ways: by coordinates, and by positions in the flat tensor."""
    nodes = [
        node("Greater", ["x", "one"], ["m"]), node("NonZero", ["m"], ["n"]),
        node("Transpose", ["n"], ["t"]), node("GatherND", ["x", "t"], ["a"]),
        node("Reshape", ["m", "flat"], ["f"]), node("NonZero", ["f"], ["p"]),
        node("Squeeze", ["p", "zero"], ["q"]), node("Reshape", ["x", "flat"], ["y"]),
        node("Gather", ["y", "q"], ["b"]), node("Unsqueeze", ["b", "zero"], ["c"]),
        node("Reshape", ["t", "rows"], ["d"]),
    ]  # fmt: skip
    held = {
        "one": np.asarray(1, np.float32),
        "flat": np.asarray([-1]),
        "zero": np.asarray([0]),
        "rows": np.asarray([-1, 2, 1]),
    }
    proto = model(
        nodes,
        [value("x", [3, 4])],
        [value("a", None), value("c", None), value("d", None, INT64)],
        held,
    )
    agree(proto, {"x": np.random.default_rng(2).normal(1, 1, (3, 4)).astype(np.float32)})


def test_views_that_mix_what_is_not_there_are_refused() -> None:
    proto = model(
        [node("NonZero", ["x"], ["n"]), node("Reshape", ["n", "to"], ["z"])],
        [value("x", [2, 3])],
        [value("z", None, INT64)],
        {"to": np.asarray([-1, 2])},
    )
    with pytest.raises(SourceError, match="XL7003"):
        load(proto)


def test_others_say_that_they_do_not() -> None:
    nodes = [node("NonZero", ["x"], ["n"]), node("MatMul", ["n", "n"], ["z"], name="product")]
    proto = model(nodes, [value("x", [7])], [value("z", None)])
    with pytest.raises(SourceError, match=r"product.*data-dependent size.*XL7003"):
        load(proto)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("ordered", [0, 1])
def test_unique(axis: int | None, ordered: int) -> None:
    """Sorted as the reference has it; unsorted (which it fails on) by what the results mean."""
    x = np.random.default_rng(3).integers(0, 3, (5, 4)).astype(np.float32)
    extra = {} if axis is None else {"axis": axis}
    proto = model(
        [node("Unique", ["x"], ["y", "i", "r", "c"], sorted=ordered, **extra)],
        [value("x", [5, 4])],
        [value("y", None), *(value(n, None, INT64) for n in "irc")],
    )
    if ordered:
        agree(proto, {"x": x})
        return
    y, first, which, counts = ours(proto, {"x": x})
    flat = x.reshape(-1) if axis is None else x
    np.testing.assert_array_equal(np.take(flat, first, axis or 0), y)
    np.testing.assert_array_equal(np.take(y, which, axis or 0), flat)
    np.testing.assert_array_equal(np.bincount(which), counts)
    assert (np.diff(first) > 0).all()
