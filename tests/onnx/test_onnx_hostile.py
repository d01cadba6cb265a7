"""Files that are damaged or made to hurt: each ends in a SourceError that names what is wrong, and
in little memory.
"""

from __future__ import annotations

import random
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx_cases import INT64, model, value

import xlac
from xlac.frontends.onnx import importer, load
from xlac.frontends.onnx.file.wire import MalformedProtobuf, without_data
from xlac.integrations import onnx_backend
from xlac_sdk.source import LimitError, SourceError

node = helper.make_node


def refused(proto: ModelProto | bytes, code: str, tmp_path: Path, **options: Any) -> str:
    """The message with which a model is refused; read from a file."""
    file = tmp_path / "m.onnx"
    file.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    with pytest.raises(SourceError) as error:
        load(file, **options)
    assert error.value.diagnostics[0].code == code, str(error.value)
    return str(error.value)


def plain(
    *nodes: Any, outputs: str = "z", constants: dict[str, Any] | None = None, **options: Any
) -> ModelProto:
    return model(
        nodes, [value("x", [2, 3])], [value(name, None) for name in outputs], constants, **options
    )


def test_no_protobuf(tmp_path: Path) -> None:
    for junk in (b"", b"\x00", b"hello, world", b"\xff" * 100, b"\x3a\xff\xff\xff\xff\x7f"):
        refused(junk, "XL7001", tmp_path)


def test_truncated_everywhere(tmp_path: Path) -> None:
    whole = plain(
        node("Relu", ["x"], ["y"]),
        node("Add", ["y", "c"], ["z"]),
        constants={"c": np.ones((2000, 3), np.float32)},
    ).SerializeToString()
    rng = random.Random(0)
    for end in [*range(60), *(rng.randrange(len(whole)) for _ in range(60))]:
        file = tmp_path / "m.onnx"
        file.write_bytes(whole[:end])
        with pytest.raises(SourceError):
            load(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="XL3001"):
        load(tmp_path / "none.onnx")


def test_cycles_and_unknown_names(tmp_path: Path) -> None:
    message = refused(
        plain(node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), outputs="b"),
        "XL7004",
        tmp_path,
    )
    assert "'b' is read before the node that gives it" in message and "cycles" in message
    refused(plain(node("Relu", ["x"], ["y"])), "XL7004", tmp_path)


def test_names_given_twice(tmp_path: Path) -> None:
    refused(plain(node("Relu", ["x"], ["z"]), node("Abs", ["x"], ["z"])), "XL7008", tmp_path)


def test_unknown_operators_are_told_all_at_once(tmp_path: Path) -> None:
    message = refused(
        plain(
            node("Reluu", ["x"], ["a"], name="first"),
            node("Cosine", ["a"], ["b"]),
            node("Tahn", ["x"], ["z"], name="third"),
        ),
        "XL7002",
        tmp_path,
    )
    assert (
        "first" in message
        and "third" in message
        and "nearest: Relu" in message
        and "Tanh" in message
    )
    assert "Cosine" in message  # though its input could not be made


def test_unknown_domains_and_operator_sets(tmp_path: Path) -> None:
    refused(plain(node("Relu", ["x"], ["z"], domain="no.such")), "XL7002", tmp_path)
    refused(plain(node("Relu", ["x"], ["z"], domain="no.such"), no_such=1), "XL7002", tmp_path)
    refused(plain(node("Relu", ["x"], ["z"]), version=999), "XL7009", tmp_path)


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
        "ConstantOfShape": node("ConstantOfShape", ["huge"], ["z"]), "Expand": node("Expand", ["one", "huge"], ["z"]),
        "Tile": node("Tile", ["one", "huge"], ["z"]), "Range": node("Range", ["zero", "end", "step"], ["z"]),
        "Pad": node("Pad", ["one", "pads"], ["z"]), "OneHot": node("OneHot", ["zero1", "end", "values"], ["z"]),
    }  # fmt: skip
    held = {
        "huge": huge, "one": np.ones((1, 1), np.float32), "zero": np.asarray(0), "end": np.asarray(1 << 50), "step": np.asarray(1),
        "pads": np.asarray([0, 0, 1 << 40, 1 << 40]), "zero1": np.asarray([0]), "values": np.asarray([0, 1]),
    }  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = refused(plain(nodes[operator], constants=held), "XL7004", tmp_path)
    assert "GiB" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18  # KiB


def test_transforms_whose_matrix_is_too_large(tmp_path: Path) -> None:
    proto = model(
        [node("DFT", ["x", "length"], ["z"], axis=1)],
        [value("x", [1, 8, 1])],
        [value("z", None)],
        {"length": np.asarray(1 << 31)},
        version=17,
    )
    assert "GiB" in refused(proto, "XL7004", tmp_path)


def test_memory_that_no_machine_has() -> None:
    """Each tensor of the file is small, and what pads a window's input is not."""
    border = {"kernel_shape": [1 << 31] * 2, "pads": [1 << 30] * 4}
    proto = model(
        [node("MaxPool", ["x"], ["z"], **border)],
        [value("x", [1, 1, 5, 5])],
        [value("z", None)],
        {},
    )
    with pytest.raises(LimitError, match="XL4020"):
        xlac.compile(proto)


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


def test_interfaces_that_are_none(tmp_path: Path) -> None:
    relu = node("Relu", ["x"], ["z"])
    x, z = value("x", [2]), value("z", None)
    refused(model([relu], [x], []), "XL7001", tmp_path)
    refused(model([relu], [x, x], [z]), "XL7008", tmp_path)
    refused(model([relu], [x], [z, z]), "XL7008", tmp_path)


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


def test_names_that_are_no_text(tmp_path: Path) -> None:
    whole = plain(
        node("Relu", ["x"], ["zzzz"], name="abcd"), node("Abs", ["zzzz"], ["z"])
    ).SerializeToString()
    for name in (b"zzzz", b"abcd"):
        assert "UTF-8" in refused(whole.replace(name, b"\xff\xfe\xfd\xfc"), "XL7001", tmp_path)


def sparse(places: list[Any], dims: list[int]) -> ModelProto:
    proto = plain(node("Add", ["x", "s"], ["z"]))
    values = numpy_helper.from_array(np.ones(2, np.float32), "s")
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.asarray(places)), dims)
    )
    return proto


def test_sparse_constants(tmp_path: Path) -> None:
    assert load(sparse([0, 5], [2, 3])).graph.outputs["z"].shape == (2, 3)
    assert load(sparse([[0, 0], [1, 2]], [2, 3])).graph.outputs["z"].shape == (2, 3)
    for places, dims in (
        ([0, 6], [2, 3]),
        ([-1, 0], [2, 3]),
        ([[0, 0], [2, 0]], [2, 3]),
        ([0, 1, 2], [2, 3]),
        ([0, 1], [1 << 40]),
    ):
        refused(sparse(places, dims), "XL7004", tmp_path)


@pytest.mark.parametrize(
    "location", ["../secret", "/etc/hostname", "a/../../secret", "", "no\0name", "missing", "."]
)
def test_data_outside_the_folder(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(24))
    (tmp_path / "in").mkdir()
    proto = plain(node("Add", ["x", "c"], ["z"]))
    tensor = proto.graph.initializer.add(name="c", data_type=1, dims=[2, 3], data_location=1)
    tensor.external_data.add(key="location", value=location)
    refused(proto, "XL7004", tmp_path / "in")


def test_links_do_not_lead_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(24))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    proto = plain(node("Add", ["x", "c"], ["z"]))
    tensor = proto.graph.initializer.add(name="c", data_type=1, dims=[2, 3], data_location=1)
    tensor.external_data.add(key="location", value="link")
    assert "--allow-outside" in refused(proto, "XL7004", tmp_path / "in")
    assert load(tmp_path / "in" / "m.onnx", allow_outside=True).graph.outputs["z"].shape == (2, 3)


@pytest.mark.parametrize(
    ("offset", "length"), [("100", "24"), ("-1", "24"), ("0", "25"), ("x", "1"), ("0", "8")]
)
def test_places_outside_the_data(offset: str, length: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(bytes(24))
    proto = plain(node("Add", ["x", "c"], ["z"]))
    tensor = proto.graph.initializer.add(name="c", data_type=1, dims=[2, 3], data_location=1)
    for key, text in (("location", "data"), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=text)
    refused(proto, "XL7004", tmp_path)


def test_a_model_in_memory_may_not_name_files() -> None:
    proto = plain(node("Add", ["x", "c"], ["z"]))
    tensor = proto.graph.initializer.add(name="c", data_type=1, dims=[2, 3], data_location=1)
    tensor.external_data.add(key="location", value="data")
    with pytest.raises(SourceError, match="in memory"):
        load(proto)


def test_data_that_is_said_to_be_in_the_file_is_left_in_the_file(tmp_path: Path) -> None:
    """Some writers tell the default place of data too, after the data."""
    proto = plain(node("Identity", ["c"], ["z"]), constants={"c": np.ones((50, 300), np.float32)})
    proto.graph.initializer[0].data_location = 0
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    np.testing.assert_array_equal(load(tmp_path / "model.onnx").weights["c"], np.ones((50, 300)))


def test_wire_format_survives_anything() -> None:
    rng = random.Random(1)
    whole = plain(
        node("Add", ["x", "c"], ["z"]), constants={"c": np.ones((50, 300), np.float32)}
    ).SerializeToString()
    assert len(without_data(memoryview(whole), "here")) < 400
    for _ in range(3000):
        damaged = bytearray(whole[: rng.randrange(200)] + whole[-100:])
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            without_data(memoryview(bytes(damaged)), "here")
        except MalformedProtobuf:
            continue


def test_devices_that_onnx_does_not_know() -> None:
    assert [
        onnx_backend.supports_device(device)
        for device in ("CPU", "CPU:0", "CUDA", "CPU:x", "no such")
    ] == [True, True, False, False, False]


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"])
def test_a_window_larger_than_its_input_is_refused(op: str, ceil_mode: int, tmp_path: Path) -> None:
    """ONNX has no empty result for it: its formula gives a negative size, and ONNX Runtime refuses."""
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
