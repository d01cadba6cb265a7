"""What ONNX's suite leaves out of recurrent networks, normalizations and older operator sets,
beside ONNX Runtime.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import Array, backend, floats, helper, ort

Given = dict[str, Array | None]


def agree(
    op: str,
    inputs: Given,
    version: int,
    outputs: int = 1,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    **attributes: Any,
) -> None:
    """One node of an operator set gives what ONNX Runtime gives."""
    present = {name: x for name, x in inputs.items() if x is not None}
    results = [f"out{n}" for n in range(outputs)]
    node = helper.make_node(
        op, [name if x is not None else "" for name, x in inputs.items()], results, **attributes
    )
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in present.items()
    ]
    wanted = [helper.make_tensor_value_info(n, 1, None) for n in results]
    model = helper.make_model(
        helper.make_graph([node], "g", infos, wanted),
        opset_imports=[helper.make_opsetid("", version)],
        ir_version=8,
    )
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for expected, found in zip(
        session.run(None, present), backend.prepare(model).run(present), strict=True
    ):
        assert expected.shape == found.shape
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def network(
    gates: int, directions: int, states: int, lengths: bool, peepholes: bool = False
) -> Given:
    time, batch, width, hidden = 5, 3, 4, 6
    given: Given = {
        "x": floats(time, batch, width),
        "w": floats(directions, gates * hidden, width),
        "r": floats(directions, gates * hidden, hidden),
        "b": floats(directions, 2 * gates * hidden),
        "lengths": np.asarray([5, 2, 3], np.int32) if lengths else None,
    }
    given |= {name: floats(directions, batch, hidden) for name in ("h", "c")[:states]}
    return given | ({"p": floats(directions, 3 * hidden)} if peepholes else {})


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("lengths", [False, True])
def test_recurrent_networks(direction: str, lengths: bool) -> None:
    count = 2 if direction == "bidirectional" else 1
    given: dict[str, Any] = {"direction": direction, "hidden_size": 6}
    agree(
        "RNN", network(1, count, 1, lengths), 14, 2, activations=["Relu"] * count, clip=0.7, **given
    )
    agree("GRU", network(3, count, 1, lengths), 14, 2, **given)
    agree(
        "GRU",
        network(3, count, 1, lengths),
        7,
        2,
        linear_before_reset=1,
        activations=["HardSigmoid", "Softsign"] * count,
        **given,
    )
    agree("LSTM", network(4, count, 2, lengths, peepholes=True), 14, 3, **given)
    agree(
        "LSTM",
        network(4, count, 2, lengths),
        7,
        3,
        activations=["Sigmoid", "Tanh", "Relu"] * count,
        clip=1.5,
        **given,
    )
    agree("LSTM", network(4, count, 2, lengths), 14, 3, input_forget=1, **given)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax_of_older_sets_takes_rows_of_all_axes_that_follow(axis: int) -> None:
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        agree(op, {"x": floats(2, 3, 4)}, 11, axis=axis)
        agree(op, {"x": floats(2, 3, 4)}, 13, axis=axis)
    agree("Softmax", {"x": floats(2, 3, 4)}, 9)


def test_resampling_of_older_sets() -> None:
    for mode in ("nearest", "linear"):
        agree("Upsample", {"x": floats(1, 2, 3, 4)}, 7, mode=mode, scales=[1.0, 1.0, 2.0, 1.5])
        agree(
            "Upsample",
            {"x": floats(1, 2, 3, 4), "s": np.asarray([1, 1, 1.7, 2.0], np.float32)},
            9,
            mode=mode,
        )
        agree(
            "Resize",
            {"x": floats(1, 2, 5, 4), "s": np.asarray([1, 1, 0.6, 2.0], np.float32)},
            10,
            mode=mode,
        )


def test_normalizations() -> None:
    x = floats(2, 6, 5, 4)
    statistics: Given = {"s": floats(6), "b": floats(6), "m": floats(6), "v": floats(6) ** 2 + 0.1}
    agree("BatchNormalization", {"x": x} | statistics, 7, epsilon=1e-3)
    agree("BatchNormalization", {"x": x} | statistics, 9)
    agree("BatchNormalization", {"x": x} | statistics, 15, 3, training_mode=1, momentum=0.7)
    agree("InstanceNormalization", {"x": x, "s": floats(6), "b": floats(6)}, 6)
    agree(
        "GroupNormalization",
        {"x": x, "s": floats(3), "b": floats(3)},
        18,
        num_groups=3,
        rtol=1e-3,
        atol=1e-4,
    )
    agree(
        "GroupNormalization",
        {"x": x, "s": floats(6), "b": floats(6)},
        21,
        num_groups=3,
        rtol=1e-3,
        atol=1e-4,
    )
    agree("MeanVarianceNormalization", {"x": x}, 13, axes=[0, 2], rtol=1e-3)
    agree("LRN", {"x": x}, 13, size=3, alpha=0.1, beta=0.6, bias=1.5)
    for p in (1, 2):
        agree("LpNormalization", {"x": x}, 1, p=p, axis=1)
    agree("LayerNormalization", {"x": x, "s": floats(5, 4), "b": floats(5, 4)}, 17, 3, axis=2)


def test_regions() -> None:
    boxes = np.asarray([[0, 0, 4, 5], [1.5, 0.7, 6.2, 3.1], [-2, 1, 3, 9]], np.float32)
    batches = np.asarray([0, 1, 0])
    for ratio in (0, 2):
        agree(
            "RoiAlign",
            {"x": floats(2, 3, 6, 7), "boxes": boxes, "at": batches},
            16,
            output_height=2,
            output_width=3,
            sampling_ratio=ratio,
        )
        agree(
            "RoiAlign",
            {"x": floats(2, 3, 6, 7), "boxes": boxes, "at": batches},
            10,
            output_height=3,
            output_width=2,
            sampling_ratio=ratio,
            spatial_scale=0.5,
        )
    flat = np.asarray([[0, 0, 0, 4, 5], [1, 2, 1, 6, 3]], np.float32)
    agree("MaxRoiPool", {"x": floats(2, 3, 7, 8), "boxes": flat}, 1, pooled_shape=[2, 3])


def test_transforms() -> None:
    x = floats(2, 12, 1)
    agree("DFT", {"x": x}, 17, axis=1, onesided=1, atol=1e-4)
    agree("DFT", {"x": floats(2, 9, 2)}, 17, axis=1, inverse=1, atol=1e-4)
    agree(
        "STFT", {"x": floats(2, 40, 1), "step": np.asarray(5), "window": floats(10)}, 17, atol=1e-3
    )
