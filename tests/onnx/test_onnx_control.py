"""Sequences, loops and branches: also those that data ends or chooses."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_cases import INT64, agree, model, ours, value

import xlac
from xlac.frontends.onnx import load

node = helper.make_node


def test_sequences_come_and_go_as_lists() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    proto = model(
        [node("SequenceInsert", ["s", "x"], ["t"]), node("SequenceAt", ["s", "zero"], ["first"])],
        [helper.make_value_info("s", kind), value("x", [2])],
        [helper.make_value_info("t", kind), value("first", None)],
        {"zero": np.asarray(0)},
    )
    program = xlac.compile(proto)
    a, b = np.ones(3, np.float32), np.zeros((2, 2), np.float32)
    found = program(s=[a, b], x=np.full(2, 7, np.float32))
    assert [item.shape for item in found["t"]] == [(3,), (2, 2), (2,)]
    np.testing.assert_array_equal(found["first"], a)
    program(s=[a + 1, b + 1], x=np.full(2, 7, np.float32))
    assert program.programs == 1  # other numbers in the same shapes need no other program


def body(outputs: list[str], *nodes: object, inputs: list[object]) -> object:
    return helper.make_graph(list(nodes), "body", inputs, [value(name, None) for name in outputs])


@pytest.mark.parametrize(("trips", "steps"), [(0, 0), (1, 1), (3, 3), (9, 4)])
def test_a_loop_that_data_ends(trips: int, steps: int) -> None:
    """x doubles until it is over a limit that the graph outside computes; what steps give is
    stacked.
    """
    inside = body(
        ["go", "twice", "twice"],
        node("Add", ["v", "v"], ["twice"]),
        node("Less", ["twice", "limit"], ["less"]),
        node("Squeeze", ["less"], ["go"]),
        inputs=[value("i", [], INT64), value("c", [], TensorProto.BOOL), value("v", [1])],
    )
    nodes = [
        node("Mul", ["l", "l"], ["limit"]),
        node("Loop", ["m", "yes", "x"], ["last", "all"], body=inside),
    ]
    inputs = [value("m", [], INT64), value("x", [1]), value("l", [1])]
    proto = model(
        nodes, inputs, [value("last", None), value("all", None)], {"yes": np.asarray(True)}
    )
    given = {
        "m": np.asarray(trips),
        "x": np.asarray([1], np.float32),
        "l": np.asarray([3], np.float32),
    }
    last, rows = ours(proto, given)
    assert last == 2**steps
    np.testing.assert_array_equal(
        rows, [[2.0 ** (n + 1)] for n in range(steps)] or np.zeros((0, 1))
    )


def test_a_loop_of_a_size_is_a_scan() -> None:
    inside = body(
        ["c", "w", "w"],
        node("Add", ["v", "x"], ["w"]),
        inputs=[value("i", [], INT64), value("c", [], TensorProto.BOOL), value("v", [3])],
    )
    nodes = [
        node("Shape", ["y"], ["s"], end=1),
        node("Squeeze", ["s"], ["m"]),
        node("Loop", ["m", "yes", "x"], ["last", "all"], body=inside),
    ]
    outputs = [value("last", None), value("all", None)]
    proto = model(
        nodes, [value("x", [3]), value("y", ["n", 2])], outputs, {"yes": np.asarray(True)}
    )
    assert "scan" in {n.op.mnemonic for n in load(proto).graph.nodes()}
    agree(proto, {"x": np.ones(3, np.float32), "y": np.ones((4, 2), np.float32)})


@pytest.mark.parametrize("truth", [True, False])
def test_branches_that_data_chooses(truth: bool) -> None:
    then = body(["a"], node("Add", ["x", "y"], ["a"]), inputs=[])
    other = body(["b"], node("Mul", ["x", "x"], ["b"]), inputs=[])
    nodes = [
        node("ReduceMax", ["x"], ["top"], keepdims=0),
        node("Greater", ["top", "one"], ["c"]),
        node("If", ["c"], ["z"], then_branch=then, else_branch=other),
    ]
    proto = model(
        nodes,
        [value("x", [3]), value("y", [3])],
        [value("z", None)],
        {"one": np.asarray(1, np.float32)},
    )
    assert "cond" in {n.op.mnemonic for n in load(proto).graph.nodes()}
    agree(proto, {"x": np.full(3, 2.0 if truth else 0.5, np.float32), "y": np.ones(3, np.float32)})


def test_branches_of_different_shapes_need_their_condition() -> None:
    then = body(["a"], node("Concat", ["x", "x"], ["a"], axis=0), inputs=[])
    other = body(["b"], node("Identity", ["x"], ["b"]), inputs=[])
    proto = model(
        [node("If", ["c"], ["z"], then_branch=then, else_branch=other)],
        [value("c", [], TensorProto.BOOL), value("x", [3])],
        [value("z", None)],
    )
    for truth in (True, False):
        assert ours(proto, {"c": np.asarray(truth), "x": np.ones(3, np.float32)})[0].size == (
            6 if truth else 3
        )
