"""TensorFlow Lite files that are damaged or hostile are refused with their place and reason; names,
open sizes and values that decide sizes are as docs/TFLITE.md says.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases_lstm import lstm
from tflite_case import const, x
from tflite_cases import cases
from tflite_writer import Graph, Tensor, model

import xlac
from xlac.frontends.loader import load
from xlac.frontends.tflite import importer
from xlac.model import Undecided
from xlac_sdk.source import SourceError, XlacError

ADD = {"table": "AddOptions", "fused_activation_function": 0}
SUM = Graph([x(2, 3), x(2, 3), x(2, 3)], [("ADD", ADD, [0, 1], [2])], [0, 1], [2])


def saved(folder: Path, data: bytes) -> Path:
    file = folder / "model.tflite"
    file.write_bytes(data)
    return file


def refusal(folder: Path, *graphs: Graph, **given: Any) -> str:
    """The message with which a model is refused."""
    with pytest.raises(SourceError) as caught:
        load(saved(folder, model(*graphs, **given)))
    return str(caught.value)


def test_every_prefix_of_a_file_is_refused_or_read(tmp_path: Path) -> None:
    data = model(SUM)
    for size in range(len(data)):
        with pytest.raises(XlacError):
            load(saved(tmp_path, data[:size]))


def test_files_with_changed_words_are_refused_or_read(tmp_path: Path) -> None:
    """Each of these ends with a model or an error of ours, and touches nothing outside the file."""
    source = random.Random(7)
    files = [
        case.file()
        for case in cases()
        if case.name in ("IF", "LSTM_False", "LSTM_i8_all", "CONV_2D_i8_0_1_1")
    ]
    for _ in range(150):
        data = bytearray(source.choice(files))
        for _ in range(source.randint(1, 3)):
            at = source.randrange(0, len(data) - 4)
            word = source.choice([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, source.getrandbits(32)])
            struct.pack_into("<I", data, at, word)
        try:
            load(saved(tmp_path, bytes(data)))
        except XlacError as error:
            assert "XL9" not in str(error)


def test_peepholes_beside_a_projection_in_integers_are_refused(tmp_path: Path) -> None:
    """The kernels give them to other units than the file says."""
    made = lstm("LSTM", -11, peepholes=True, projection=True)
    with pytest.raises(SourceError, match="peepholes beside a projection"):
        load(saved(tmp_path, made.file()))


def test_shared_tables_are_bounded(tmp_path: Path) -> None:
    """A vector whose entries are one table, each of which has such a vector, is read many times."""
    data = bytearray(model(*[SUM] * 3))
    assert load(saved(tmp_path, bytes(data)))
    many = Graph(SUM.tensors, SUM.operators * 2_000, [0, 1], [2])
    whole = model(many)
    first = whole.index(struct.pack("<I", 2_000))
    shared = bytearray(whole)
    for n in range(2_000):
        place = first + 4 + 4 * n
        there = first + 4 + struct.unpack_from("<I", whole, first + 4)[0]
        struct.pack_into("<I", shared, place, there - place)
    try:
        load(saved(tmp_path, bytes(shared)))
    except XlacError as error:
        assert "XL9" not in str(error)


def test_messages_name_the_operator(tmp_path: Path) -> None:
    wrong = Graph([x(2, 3), x(4, 3), x(2, 3)], [("ADD", ADD, [0, 1], [2])], [0, 1], [2])
    assert "operator 0 (ADD) giving 't2': " in refusal(tmp_path, wrong)
    missing = Graph([x(2, 3), x(2, 3)], [("ADD", ADD, [0], [1])], [0], [1])
    assert "input 1 is missing" in refusal(tmp_path, missing)
    for name, numbers in (("MAXIMUM", [0]), ("FLOOR_DIV", [0]), ("LESS", [0]), ("NEG", [])):
        few = Graph([x(2, 3), x(2, 3)], [(name, {}, numbers, [1])], [0], [1])
        assert f"input {len(numbers)} is missing" in refusal(tmp_path, few)
    strange = Graph([x(2, 3), x(2, 3)], [("NEG", {}, [9], [1])], [0], [1])
    assert "it names tensor 9, and there are 2" in refusal(tmp_path, strange)
    early = Graph([x(2), x(2), x(2)], [("NEG", {}, [1], [2]), ("NEG", {}, [0], [1])], [0], [2])
    assert "read before an operator gives it" in refusal(tmp_path, early)
    options = Graph(SUM.tensors, [("ADD", {"table": "MulOptions"}, [0, 1], [2])], [0, 1], [2])
    assert "its options are MulOptions, not AddOptions" in refusal(tmp_path, options)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    graph = Graph(
        [x(2), x(2), x(2), x(2)],
        [("WHERE", {}, [0], [1]), ("FlexErfinv", {}, [0], [2]), ("ADD", ADD, [1, 2], [3])],
        [0],
        [3],
    )
    message = refusal(tmp_path, graph)
    assert "operator WHERE is not supported" in message
    assert "custom operator FlexErfinv is not supported" in message
    assert "ADD" not in message  # what depends on those is not told again


def test_text_has_no_numbers(tmp_path: Path) -> None:
    graph = Graph([Tensor("string", (2,)), x(2)], [("NEG", {}, [0], [1])], [0], [1])
    assert "input 't0' is of type STRING" in refusal(tmp_path, graph)


def test_shapes_that_the_file_states_must_be_true(tmp_path: Path) -> None:
    graph = Graph([x(2, 3), x(3, 2)], [("NEG", {}, [0], [1])], [0], [1])
    assert "it gives f32[2, 3], and the model says FLOAT32[3, 2]" in refusal(tmp_path, graph)


def test_recursive_sub_graphs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "REPEATED", 2_000)
    call = ("CALL", {"table": "CallOptions", "subgraph": 0}, [0], [1])
    assert "more than 100 deep" in refusal(tmp_path, Graph([x(2), x(2)], [call], [0], [1]))
    twice = [("CALL", {"table": "CallOptions", "subgraph": n + 1}, [0], [1]) for n in range(40)]
    graphs = [Graph([x(2), x(2)], [op, op], [0], [1]) for op in twice]
    message = refusal(tmp_path, *graphs, Graph([x(2), x(2)], [("NEG", {}, [0], [1])], [0], [1]))
    assert "XL7007" in message


def test_a_tensor_is_one_input(tmp_path: Path) -> None:
    graph = Graph([x(2), x(2)], [("NEG", {}, [0], [1])], [0, 0], [1])
    assert "one tensor as several inputs" in refusal(tmp_path, graph)


def test_weights_have_other_names_than_inputs(tmp_path: Path) -> None:
    large = np.ones((64, 64), np.float32)
    tensors = [x(64, 64, name="a"), Tensor("f32", (64, 64), large, name="a"), x(64, 64)]
    graph = Graph(tensors, [("ADD", ADD, [0, 1], [2])], [0], [2])
    program = xlac.compile(saved(tmp_path, model(graph)))
    assert np.array_equal(program(large), 2 * large)


def test_resized_images_have_a_limit(tmp_path: Path) -> None:
    sizes = np.array([7, 2**31 - 1], np.int32)
    for kind in ("f32", "u8"):
        image = Tensor(kind, (1, 2, 2, 1), scale=0.5 if kind == "u8" else None)
        tensors = [image, Tensor("i32", (2,), sizes), image]
        op = ("RESIZE_BILINEAR", {"table": "ResizeBilinearOptions"}, [0, 1], [2])
        assert "at most 1,048,576" in refusal(tmp_path, Graph(tensors, [op], [0], [2]))


@pytest.mark.parametrize(
    ("kind", "zero"), [("i8", 128), ("i8", -129), ("u8", -1), ("i16", 1 << 15), ("i32", 1 << 31)]
)
def test_a_zero_point_is_a_number_of_its_type(kind: str, zero: int, tmp_path: Path) -> None:
    """Integers less another zero point would not fit the type in which they are computed."""
    graph = Graph(
        [Tensor(kind, (2,), scale=0.5, zero=zero), x(2)], [("DEQUANTIZE", {}, [0], [1])], [0], [1]
    )
    assert "zero point beyond its type" in refusal(tmp_path, graph)


def test_a_scale_of_zero_is_nothing_to_divide_by(tmp_path: Path) -> None:
    ends = [Tensor("i8", (2,), scale=scale) for scale in (0.5, 0.5, 0.0)]
    graph = Graph(ends, [("PRELU", {}, [0, 1], [2])], [0, 1], [2])
    with np.errstate(divide="ignore"):
        assert "one of them is 0" in refusal(tmp_path, graph)


def test_open_sizes_are_symbols(tmp_path: Path) -> None:
    shape = {"signature": (-1, 3)}
    graph = Graph([x(1, 3, **shape), x(1, 3, **shape)], [("NEG", {}, [0], [1])], [0], [1])
    program = xlac.compile(saved(tmp_path, model(graph)))
    for batch in (1, 5):
        value = np.ones((batch, 3), np.float32)
        np.testing.assert_array_equal(program(value), -value)


def test_names_are_those_of_the_signature(tmp_path: Path) -> None:
    signature = {
        "inputs": [{"name": "left", "tensor_index": 0}, {"name": "right", "tensor_index": 1}],
        "outputs": [{"name": "total", "tensor_index": 2}],
        "signature_key": "serving_default",
        "subgraph_index": 0,
    }
    interface = load(saved(tmp_path, model(SUM, signatures=[signature]))).interface
    assert (interface.inputs, interface.outputs) == (("left", "right"), ("total",))
    other = signature | {"inputs": signature["inputs"][:1]}
    assert "does not fit its sub-graph" in refusal(tmp_path, SUM, signatures=[other])


def test_open_sizes_are_those_of_the_signature(tmp_path: Path) -> None:
    open_sizes = {"signature": (-1, 3)}
    doubled = Graph(
        [x(1, 3, **open_sizes), x(1, 3), x(1, 3), x(2, 3)],
        [
            ("NEG", {}, [0], [1]),
            ("CONCATENATION", {"table": "ConcatenationOptions", "axis": 0}, [0, 1], [3]),
        ],
        [0],
        [3],
    )
    signature = {
        "inputs": [{"name": "x", "tensor_index": 0}],
        "outputs": [{"name": "y", "tensor_index": 3}],
        "signature_key": "serving_default",
        "subgraph_index": 1,
    }
    program = xlac.compile(saved(tmp_path, model(SUM, doubled, signatures=[signature])))
    value = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(program(value), np.concatenate([value, -value]))


def test_another_signature_is_chosen_by_name(tmp_path: Path) -> None:
    signatures = [
        {
            "inputs": [{"name": name, "tensor_index": n} for n, name in enumerate("xy")],
            "outputs": [{"name": "z", "tensor_index": 2}],
            "signature_key": key,
            "subgraph_index": graph,
        }
        for graph, key in enumerate(("sum", "product"))
    ]
    times = {"table": "MulOptions", "fused_activation_function": 0}
    product = Graph(SUM.tensors, [("MUL", times, [0, 1], [2])], [0, 1], [2])
    file = saved(tmp_path, model(SUM, product, signatures=signatures))
    values = np.full((2, 3), 3, np.float32), np.full((2, 3), 5, np.float32)
    for chosen, wanted in (("", 8), ("sum", 8), ("product", 15)):
        np.testing.assert_array_equal(xlac.compile(file, signature=chosen)(*values), wanted)
    with pytest.raises(SourceError, match="no signature 'products'") as refused:
        load(file, signature="products")
    assert "product" in refused.value.diagnostics[0].hint


def test_values_that_decide_sizes_are_asked_for(tmp_path: Path) -> None:
    table = {"table": "ReshapeOptions"}
    graph = Graph(
        [x(2, 3), Tensor("i32", (2,)), x(3, 2)], [("RESHAPE", table, [0, 1], [2])], [0, 1], [2]
    )
    file = saved(tmp_path, model(graph))
    with pytest.raises(Undecided, match="the value of t1"):
        load(file)
    assert load(file, params={"t1": [3, 2]}).interface.outputs == ("t2",)


def test_large_constants_stay_in_the_file(tmp_path: Path) -> None:
    value = np.arange(3000, dtype=np.float32)
    graph = Graph([x(3000), const(value, "f32"), x(3000)], [("ADD", ADD, [0, 1], [2])], [0], [2])
    read = load(saved(tmp_path, model(graph)))
    np.testing.assert_array_equal(read.weights["t1"], value)
    assert not read.weights["t1"].flags.owndata


def test_operators_without_complex_numbers_refuse_them(tmp_path: Path) -> None:
    """Their last axis of real and imaginary parts would be taken for one of the tensor's own."""
    times = {"table": "MulOptions", "fused_activation_function": 0}
    tensors = [x(2, 8), const([1, 8]), Tensor("c64", (2, 5)), Tensor("c64", (2, 5))]
    graph = Graph(tensors, [("RFFT2D", {}, [0, 1], [2]), ("MUL", times, [2, 2], [3])], [0], [3])
    assert "complex numbers are not supported here" in refusal(tmp_path, graph)
