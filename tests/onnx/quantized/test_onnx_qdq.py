"""Quantize-dequantize models: products are multiplied as integers, and the results are ONNX
Runtime's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import RNG, Array, bytes_, floats, ort

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

import xlac.integrations.onnx_backend as backend
from xlac.codegen.claims import is_kept
from xlac.frontends.loader import load
from xlac.ir.graph import walk
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.passes.pipeline import optimize
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request


def dequantized(
    name: str,
    array: Array,
    scale: Array,
    zero: Array | None,
    nodes: list[Any],
    held: list[Any],
    axis: int = 1,
) -> str:
    """Adds a DequantizeLinear of a constant; gives its result's name."""
    parts = {name: array, f"{name}_scale": scale} | ({} if zero is None else {f"{name}_zero": zero})
    held += [numpy_helper.from_array(value, key) for key, value in parts.items()]
    nodes.append(helper.make_node("DequantizeLinear", list(parts), [f"{name}_f"], axis=axis))
    return f"{name}_f"


def qdq(
    op: str,
    x: Array,
    weight: Array,
    by_channel: bool,
    bias: int,
    zero: int = 3,
    axis: int = 0,
    **attributes: Any,
) -> Any:
    """x of u8 -> dequantized, times a weight of i8, plus a bias of i32 -> quantized to u8."""
    nodes: list[Any] = []
    held: list[Any] = []
    channels = weight.shape[axis]
    scales = (
        (floats(channels) ** 2 / 100 + 0.003).astype(np.float32)
        if by_channel
        else np.asarray(0.0173, np.float32)
    )
    none = np.zeros(channels, np.int8) if by_channel else np.asarray(0, np.int8)
    held += [
        numpy_helper.from_array(np.asarray(v, d), n)
        for n, v, d in (
            ("xs", 0.0213, np.float32),
            ("xz", zero, np.uint8),
            ("ys", 0.31, np.float32),
            ("yz", 120, np.uint8),
        )
    ]
    nodes.append(helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]))
    inputs = ["xf", dequantized("w", weight, scales, none, nodes, held, axis)]
    if bias:
        inputs.append(
            dequantized(
                "b",
                RNG.integers(-900, 900, bias).astype(np.int32),
                np.float32(0.0213) * scales,
                None,
                nodes,
                held,
                0,
            )
        )
    nodes.append(helper.make_node(op, inputs, ["y"], **attributes))
    nodes.append(helper.make_node("QuantizeLinear", ["y", "ys", "yz"], ["z"]))
    graph = helper.make_graph(
        nodes,
        "qdq",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("z", TensorProto.UINT8, None)],
        held,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


CASES = [
    ("Conv", (2, 6, 9, 8), (8, 6, 3, 3), True, 8, 0, {"pads": [1, 1, 1, 1]}),
    ("Conv", (1, 6, 9, 8), (6, 1, 3, 3), True, 6, 0,
     {"group": 6, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("Conv", (1, 16, 9), (4, 16, 3), False, 4, 0, {"pads": [1, 0]}),
    ("MatMul", (2, 7, 33), (33, 12), False, 0, 1, {}),
    ("MatMul", (7, 33), (33, 12), True, 0, 1, {}),
    ("Gemm", (7, 33), (12, 33), True, 12, 0, {"transB": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "x", "weight", "by_channel", "bias", "axis", "attributes"), CASES)
def test_products_are_of_integers_and_agree(
    op: str,
    x: tuple[int, ...],
    weight: tuple[int, ...],
    by_channel: bool,
    bias: int,
    axis: int,
    attributes: dict[str, Any],
) -> None:
    given = bytes_(*x)
    model = qdq(
        op, given, bytes_(*weight, dtype=np.int8), by_channel, bias, axis=axis, **attributes
    )
    loaded = load(model)
    graph = optimize(
        loaded.graph, find("cpu").target(Request()), weights=loaded.weights, is_kept=is_kept
    )
    products = [n for n in walk(graph.outputs.values()) if isinstance(n.op, Dot | Conv)]
    assert [n.type.dtype for n in products] == [DType.I32]
    (found,) = backend.prepare(model).run([given])
    plain = ort.SessionOptions()  # floats throughout: what the model says, rounded at every step
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for options in (plain, ort.SessionOptions()):
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        gap = np.abs(session.run(None, {"x": given})[0].astype(int) - found.astype(int))
        assert gap.max() <= 1 and (gap > 0).mean() < 0.01


@pytest.mark.parametrize(("depth", "kept"), [(40000, DType.I32), (70000, DType.F32)])
def test_sums_that_i32_does_not_hold_stay_floats(depth: int, kept: DType) -> None:
    """So many products of at most 255 * 128 are below 2^31, or may not be."""
    loaded = load(
        qdq("MatMul", bytes_(1, depth), bytes_(depth, 2, dtype=np.int8), False, 0, zero=0)
    )
    graph = optimize(
        loaded.graph, find("cpu").target(Request()), weights=loaded.weights, is_kept=is_kept
    )
    (product,) = [n for n in walk(graph.outputs.values()) if isinstance(n.op, Dot)]
    assert product.type.dtype is kept
