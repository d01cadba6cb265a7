"""Data of tensors in and outside of the file: no place is read that the file may not name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from refusals import plain, refused

from xlac.frontends.onnx import load
from xlac_sdk.source import SourceError

node = helper.make_node


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


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("Elu", {"alpha": [1.0]}),
        ("Celu", {"alpha": "1"}),
        ("LeakyRelu", {"alpha": numpy_helper.from_array(np.ones(1, np.float32), "t")}),
        ("Softmax", {"axis": 1.0}),
        ("Flatten", {"axis": [1]}),
    ],
)
def test_attributes_of_another_kind(
    operator: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    proto = plain(node(operator, ["x"], ["z"], **attributes))
    (name,) = attributes
    assert f"attribute '{name}' must be" in refused(proto, "XL7004", tmp_path)
