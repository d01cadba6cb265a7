"""Products of bytes of ONNX with open sizes, as ONNX Runtime has them, and lookups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import RNG, Array, bytes_, floats, ort
from onnx import TensorProto, helper, numpy_helper

import xlac

U8, F32 = TensorProto.UINT8, TensorProto.FLOAT
SCALES = {"xs": np.float32(0.02), "ys": np.float32(0.2), "xz": np.uint8(12), "yz": np.uint8(120)}
OPERANDS = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]


def model(nodes: list[Any], x: Any, y: Any, held: dict[str, Any]) -> Any:
    data = [numpy_helper.from_array(np.asarray(value), name) for name, value in held.items()]
    infos = [helper.make_tensor_value_info(*v) for v in (("x", *x), ("y", *y))]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], data)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def product() -> tuple[Any, list[Array]]:
    """Sums that are no whole steps."""
    held = SCALES | {"w": bytes_(37, 50, dtype=np.int8), "ws": np.float32(0.01), "wz": np.int8(-3)}
    node = helper.make_node("QLinearMatMul", OPERANDS, ["y"])
    made = model([node], (U8, ("n", 37)), (U8, ("n", 50)), held)
    return made, [bytes_(rows, 37) for rows in (1, 5, 64)]


def convolution() -> tuple[Any, list[Array]]:
    """A border that is not 0."""
    held = SCALES | {
        "w": bytes_(20, 6, 3, 3, dtype=np.int8),
        "ws": (floats(20) ** 2 / 100 + 0.002).astype(np.float32),
        "wz": np.zeros(20, np.int8),
    }
    node = helper.make_node("QLinearConv", OPERANDS, ["y"], pads=[1] * 4)
    made = model([node], (U8, ("n", 6, "a", "b")), (U8, ("n", 20, "a", "b")), held)
    return made, [bytes_(1, 6, 5, 5), bytes_(2, 6, 9, 17)]


def dynamic() -> tuple[Any, list[Array]]:
    """A zero point that is known when the model runs."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["wide"], to=F32),
        helper.make_node("Mul", ["wide", "s"], ["y"]),
    ]
    held = {"w": bytes_(64, 48, dtype=np.uint8), "wz": np.uint8(7)}
    made = model(nodes, (F32, ("n", 64)), (F32, ("n", 48)), held)
    return made, [floats(1, 64), floats(33, 64)]


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("make", [product, convolution, dynamic])
@pytest.mark.sampled(4)
def test_open_sizes(make: Any, target: str) -> None:
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state
    made, given = make()
    names = {d.dim_param for d in made.graph.input[0].type.tensor_type.shape.dim if d.dim_param}
    program = xlac.compile(made, target, sizes="symbolic", dims=dict.fromkeys(names, "0..64"))
    options = ort.SessionOptions()  # else sums of bytes saturate on processors without VNNI
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = ort.InferenceSession(made.SerializeToString(), options)
    for x in given:
        np.testing.assert_array_equal(np.asarray(program(x=x)), session.run(None, {"x": x})[0])
    assert np.asarray(program(x=given[0][:0])).size == 0


def test_functions_of_a_byte_are_looked_up() -> None:
    """A sigmoid between DequantizeLinear and QuantizeLinear is a table, which has its own steps."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["f"]),
        helper.make_node("Sigmoid", ["f"], ["s"]),
        helper.make_node("Mul", ["f", "s"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "ys", "yz"], ["y"]),
    ]
    made = model(nodes, (U8, (3, 256)), (U8, (3, 256)), SCALES)
    x = np.tile(np.arange(256, dtype=np.uint8), (3, 1))
    real = (x.astype(np.float64) - 12) * np.float64(np.float32(0.02))
    exact = np.rint(real / (1 + np.exp(-real)) / np.float64(np.float32(0.2))) + 120
    np.testing.assert_array_equal(
        np.asarray(xlac.compile(made, "cpu")(x=x)), np.clip(exact, 0, 255).astype(np.uint8)
    )
