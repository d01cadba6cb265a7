"""Files that are damaged: cut, missing, or with names, graphs and interfaces that make no sense."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_cases import model, value
from refusals import plain, refused

from xlac.frontends.onnx import load
from xlac.frontends.onnx.file.wire import without_data
from xlac.integrations import onnx_backend
from xlac.support.protobuf import MalformedProtobuf
from xlac_sdk.source import SourceError

node = helper.make_node


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


def test_interfaces_that_are_none(tmp_path: Path) -> None:
    relu = node("Relu", ["x"], ["z"])
    x, z = value("x", [2]), value("z", None)
    refused(model([relu], [x], []), "XL7001", tmp_path)
    refused(model([relu], [x, x], [z]), "XL7008", tmp_path)
    refused(model([relu], [x], [z, z]), "XL7008", tmp_path)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    whole = plain(
        node("Relu", ["x"], ["zzzz"], name="abcd"), node("Abs", ["zzzz"], ["z"])
    ).SerializeToString()
    for name in (b"zzzz", b"abcd"):
        assert "UTF-8" in refused(whole.replace(name, b"\xff\xfe\xfd\xfc"), "XL7001", tmp_path)


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
