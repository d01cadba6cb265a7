"""Small files that ask for much: functions and bodies that multiply, sizes that no machine has,
loops without end.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_cases import INT64, model, value
from refusals import plain, refused

import xlac
from xlac.frontends.onnx import importer, load, read
from xlac.ops import build
from xlac_sdk.source import LimitError

node = helper.make_node


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    loop = helper.make_function(
        "f", "Again", ["a"], ["b"], [node("Again", ["a"], ["b"], domain="f")], sets
    )
    assert "deep" in refused(
        plain(node("Again", ["x"], ["z"], domain="f"), functions=[loop], f=1), "XL7004", tmp_path
    )


def test_functions_that_multiply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "NODES", 10_000)  # the bound itself takes twelve seconds
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    functions = [helper.make_function("f", "F0", ["a"], ["b"], [node("Relu", ["a"], ["b"])], sets)]
    for level in range(1, 30):
        twice = [
            node(f"F{level - 1}", ["a"], ["c"], domain="f"),
            node(f"F{level - 1}", ["c"], ["b"], domain="f"),
        ]
        functions.append(helper.make_function("f", f"F{level}", ["a"], ["b"], twice, sets))
    refused(
        plain(node("F29", ["x"], ["z"], domain="f"), functions=functions, f=1), "XL7007", tmp_path
    )


def test_bodies_too_deep(tmp_path: Path) -> None:
    graph = helper.make_graph([node("Relu", ["x"], ["y"])], "g", [], [value("y", None)])
    for level in range(40):
        inner = node("If", ["c"], [f"y{level}"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([inner], "g", [], [value(f"y{level}", None)])
        if graph.ByteSize() > 1 << 20:
            break
    proto = plain(
        node("If", ["c"], ["z"], then_branch=graph, else_branch=graph),
        constants={"c": np.asarray(True)},
    )
    load(proto)  # deep, but not too deep


@pytest.mark.parametrize("dims", [[-1], [1 << 62], [1 << 40, 1 << 40], [7]])
def test_dims_that_the_data_does_not_fit(dims: list[int], tmp_path: Path) -> None:
    proto = plain(node("Add", ["x", "c"], ["z"]))
    proto.graph.initializer.append(
        TensorProto(name="c", data_type=1, dims=dims, raw_data=b"\0" * 8)
    )
    refused(proto, "XL7004", tmp_path)


def test_inputs_without_rank_or_with_impossible_sizes(tmp_path: Path) -> None:
    for shape in (None, [1 << 60], [-3]):
        refused(
            model([node("Relu", ["x"], ["z"])], [value("x", shape)], [value("z", None)]),
            "XL7005",
            tmp_path,
        )


@pytest.mark.parametrize(
    "operator", ["ConstantOfShape", "Expand", "Tile", "Range", "Pad", "OneHot"]
)
def test_small_files_that_ask_for_much(operator: str, tmp_path: Path) -> None:
    huge = np.asarray([1 << 40, 1 << 20])
    nodes = {
        "ConstantOfShape": node("ConstantOfShape", ["huge"], ["z"]),
        "Expand": node("Expand", ["one", "huge"], ["z"]),
        "Tile": node("Tile", ["one", "huge"], ["z"]),
        "Range": node("Range", ["zero", "end", "step"], ["z"]),
        "Pad": node("Pad", ["one", "pads"], ["z"]),
        "OneHot": node("OneHot", ["zero1", "end", "values"], ["z"]),
    }
    held = {
        "huge": huge,
        "one": np.ones((1, 1), np.float32),
        "zero": np.asarray(0),
        "end": np.asarray(1 << 50),
        "step": np.asarray(1),
        "pads": np.asarray([0, 0, 1 << 40, 1 << 40]),
        "zero1": np.asarray([0]),
        "values": np.asarray([0, 1]),
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refused(plain(nodes[operator], constants=held), "XL7004", tmp_path)
    assert "GiB" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB


@pytest.mark.parametrize("given", ["num_outputs", "sizes"])
def test_more_parts_than_outputs(given: str, tmp_path: Path) -> None:
    """The parts are counted before they are made: a file of 300 bytes had 65,536 of them."""
    counted = {"num_outputs": 1 << 16} if given == "num_outputs" else {}
    sizes = {} if counted else {"sizes": np.ones(1 << 12, np.int64)}
    split = node("Split", ["x", *sizes], ["z", "w"], axis=0, **counted)
    said = refused(plain(split, outputs="zw", constants=sizes), "XL7004", tmp_path)
    assert "2 outputs" in said


def test_sequences_of_more_items_than_are_read(tmp_path: Path) -> None:
    """Two nodes of 65,536 items each took nine seconds for a file of 200 bytes."""
    proto = model(
        [node("SplitToSequence", ["x"], ["s"], axis=1), node("SequenceLength", ["s"], ["z"])],
        [value("x", ["n", 1 << 16])],
        [value("z", None, INT64)],
        {},
    )
    assert "at most 4,096 are supported" in refused(proto, "XL7004", tmp_path)


def test_sizes_are_tried_with_a_bounded_number_of_operations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open size that prevents the import, beside a node that makes as many as it may."""
    made: list[Any] = []
    cut = build.cut
    monkeypatch.setattr(build, "cut", lambda *given: made.append(given) or cut(*given))
    monkeypatch.setattr(read, "TRIED_OPERATIONS", 3_000)
    proto = model(
        [
            node("SplitToSequence", ["x", "one"], ["s"], axis=1),
            node("ConcatFromSequence", ["s"], ["y"], axis=1),
            node("DFT", ["y"], ["z"], axis=5),
        ],
        [value("x", ["n", 1_000])],
        [value("z", None)],
        {"one": np.asarray(1)},
    )
    refused(proto, "XL7004", tmp_path)
    assert 1_000 < len(made) < 5_000  # of the first attempt, and of those that try sizes


def test_transforms_whose_matrix_is_too_large(tmp_path: Path) -> None:
    proto = model(
        [node("DFT", ["x", "length"], ["z"], axis=1)],
        [value("x", [1, 8, 1])],
        [value("z", None)],
        {"length": np.asarray(1 << 31)},
        version=17,
    )
    assert "numbers; at most" in refused(proto, "XL7004", tmp_path)


def test_memory_that_no_machine_has() -> None:
    """Each tensor of the file is small, and what pads a window's input is not."""
    border = {"kernel_shape": [3, 3], "strides": [1 << 31] * 2, "pads": [1 << 31] * 4}
    proto = model(
        [node("MaxPool", ["x"], ["z"], **border)],
        [value("x", [1, 1, 5, 5])],
        [value("z", None)],
        {},
    )
    with pytest.raises(LimitError, match="XL4020"):
        xlac.compile(proto)


def test_windows_far_beyond_their_input_see_what_there_is() -> None:
    border = {"kernel_shape": [1 << 31] * 2, "pads": [1 << 30] * 4}
    proto = model(
        [node("MaxPool", ["x"], ["z"], **border)],
        [value("x", [1, 1, 5, 5])],
        [value("z", None)],
        {},
    )
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    np.testing.assert_array_equal(np.asarray(xlac.compile(proto)(x)), np.full((1, 1, 6, 6), 24.0))


def test_counters_that_are_too_large_to_make_at_compile_time(tmp_path: Path) -> None:
    ends = {"first": np.asarray(0), "end": np.asarray(1 << 33), "step": np.asarray(1)}
    proto = plain(
        node("Range", ["first", "end", "step"], ["r"]),
        node("ReduceSum", ["r"], ["z"], keepdims=0),
        constants=ends,
    )
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert xlac.compile(tmp_path / "m.onnx") is not None  # which does not sum 64 GiB of numbers


def test_concatenations_that_double() -> None:
    nodes = [node("Concat", [f"c{level}"] * 2, [f"c{level + 1}"], axis=0) for level in range(12)]
    proto = model(
        [node("Neg", ["x"], ["c0"]), *nodes, node("ReduceSum", ["c12"], ["z"], keepdims=0)],
        [value("x", [8])],
        [value("z", None)],
        {},
    )
    assert float(xlac.compile(proto)(np.ones(8, np.float32))) == -8 * 2**12


def test_loops_without_end(tmp_path: Path) -> None:
    inner = helper.make_graph(
        [node("Concat", ["v", "v"], ["w"], axis=0)],
        "b",
        [value("i", [], INT64), value("c", [], TensorProto.BOOL), value("v", [2])],
        [value("c", None, TensorProto.BOOL), value("w", None)],
    )
    proto = plain(
        node("Loop", ["n", "", "x"], ["z"], body=inner), constants={"n": np.asarray(1 << 60)}
    )
    refused(proto, "XL7004", tmp_path)  # the tensor is too large long before


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
def test_a_window_larger_than_its_input_is_refused(op: str, ceil_mode: int, tmp_path: Path) -> None:
    """ONNX has no empty result: its formula gives a negative size, and ONNX Runtime refuses."""
    pool = op.endswith("Pool")
    given: dict[str, Any] = {"strides": [1, 1]} | (
        {"kernel_shape": [30, 2], "ceil_mode": ceil_mode} if pool else {"group": 1}
    )
    kernel = [1, 1] if op == "ConvTranspose" else [30, 2]
    if op == "ConvTranspose":
        given["pads"] = [5, 0, 5, 0]
    constants = {} if pool else {"w": np.ones((2, 2, *kernel), np.float32)}
    proto = model(
        [node(op, ["x", *constants], ["y"], **given)],
        [value("x", [1, 2, 8, 8])],
        [value("y", None)],
        constants,
    )
    message = refused(proto, "XL7004", tmp_path)
    assert "does not fit axis 2, which has 8 elements" in message
