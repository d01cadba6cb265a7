"""Random attributes of convolutions, pools, Resize and GridSample, against ONNX Runtime or ONNX's
reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_node import Array, backend, helper, onnx, ort

SETTINGS = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


def model(
    op: str,
    inputs: dict[str, Array | None],
    version: int,
    outputs: int = 1,
    held: frozenset[str] = frozenset(),
    **attributes: Any,
) -> Any:
    """A model of one node; the inputs in `held` are constants."""
    present = {name: x for name, x in inputs.items() if x is not None}
    results = [f"out{n}" for n in range(outputs)]
    node = helper.make_node(
        op, [name if x is not None else "" for name, x in inputs.items()], results, **attributes
    )
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in present.items()
        if n not in held
    ]
    constants = [onnx.numpy_helper.from_array(x, n) for n, x in present.items() if n in held]
    kinds = [1, 7][:outputs]
    wanted = [
        helper.make_tensor_value_info(n, k, None) for n, k in zip(results, kinds, strict=True)
    ]
    graph = helper.make_graph([node], "g", infos, wanted, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=9)


def runtime(made: Any, feeds: dict[str, Array]) -> list[Array]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    found: list[Array] = ort.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    return found


def reference(made: Any, feeds: dict[str, Array]) -> list[Array]:
    from onnx.reference import ReferenceEvaluator

    found: list[Array] = ReferenceEvaluator(made).run(None, feeds)
    return found


def check(
    made: Any, feeds: dict[str, Array], wanted: list[Array], rtol: float = 1e-4, atol: float = 1e-5
) -> None:
    for expected, found in zip(wanted, backend.prepare(made).run(feeds), strict=True):
        assert expected.shape == found.shape, (expected.shape, found.shape, made.graph.node[0])
        np.testing.assert_allclose(
            found, expected, rtol=rtol, atol=atol, err_msg=str(made.graph.node[0])
        )


@st.composite
def windows(draw: Any, most: int = 3) -> dict[str, Any]:
    """Kernel, strides, dilations and padding over one to `most` axes, and sizes that they fit."""
    rank = draw(st.integers(1, most))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    kernel, strides, dilations = each(1, 3), each(1, 3), each(1, 2)
    spans = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    pads = [
        draw(st.integers(0, min(s, k - 1)))
        for _ in range(2)
        for s, k in zip(spans, kernel, strict=True)
    ]
    sizes = [s + 1 + extra for s, extra in zip(spans, each(0, 6), strict=True)]
    return {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
        "sizes": sizes,
        "auto": draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])),
    }


def placing(at: dict[str, Any]) -> dict[str, Any]:
    pads = {"pads": at["pads"]} if at["auto"] == "NOTSET" else {"auto_pad": at["auto"]}
    return {"kernel_shape": at["kernel"], "strides": at["strides"], **pads}


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@SETTINGS
@given(windows(), st.sampled_from([(1, 1), (2, 3), (3, 1)]), st.integers(1, 2), st.booleans())
def test_conv(at: dict[str, Any], channels: tuple[int, int], groups: int, bias: bool) -> None:
    inward, outward = channels[0] * groups, channels[1] * groups
    x, w = normal(0, 2, inward, *at["sizes"]), normal(1, outward, channels[0], *at["kernel"])
    dilations = {} if at["auto"].startswith("SAME") else {"dilations": at["dilations"]}
    feeds = {"x": x, "w": w} | ({"b": normal(2, outward)} if bias else {})
    made = model("Conv", feeds, 13, group=groups, **placing(at), **dilations)
    check(made, feeds, runtime(made, feeds))


@SETTINGS
@given(windows(), st.integers(1, 2), st.sampled_from(["pads", "extra", "shape"]), st.integers(0, 1))
def test_conv_transpose(at: dict[str, Any], groups: int, how: str, more: int) -> None:
    x, w = normal(0, 2, 2 * groups, *at["sizes"]), normal(1, 2 * groups, 3, *at["kernel"])
    attributes = placing(at) | {"dilations": at["dilations"], "group": groups}
    extra = [min(more, s - 1) for s in at["strides"]]
    full = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(
            at["sizes"], at["strides"], at["kernel"], at["dilations"], strict=True
        )
    ]
    if how == "shape":
        attributes.pop("pads", None)
        attributes["output_shape"] = [max(1, n - more) for n in full]
    elif at["auto"].startswith("SAME"):
        return  # ONNX Runtime reads these otherwise than the specification
    elif how == "extra":
        attributes["output_padding"] = extra
    feeds = {"x": x, "w": w}
    made = model("ConvTranspose", feeds, 11, **attributes)
    check(made, feeds, runtime(made, feeds))


@SETTINGS
@given(windows(), st.booleans(), st.booleans(), st.integers(0, 1))
def test_max_pool(at: dict[str, Any], ceil: bool, where: bool, order: int) -> None:
    if at["auto"].startswith("SAME") and any(
        s > k for s, k in zip(at["strides"], at["kernel"], strict=True)
    ):
        return  # which ONNX Runtime refuses (see below)
    x = normal(0, 2, 3, *at["sizes"])
    extra = {} if at["auto"] != "NOTSET" else {"dilations": at["dilations"], "ceil_mode": int(ceil)}
    made = model(
        "MaxPool", {"x": x}, 12, outputs=1 + where, storage_order=order, **placing(at), **extra
    )
    check(made, {"x": x}, runtime(made, {"x": x}))


@SETTINGS
@given(windows(), st.booleans(), st.booleans())
def test_average_pool(at: dict[str, Any], ceil: bool, include: bool) -> None:
    x = normal(0, 2, 3, *at["sizes"])
    extra = {} if at["auto"] != "NOTSET" else {"dilations": at["dilations"], "ceil_mode": int(ceil)}
    made = model(
        "AveragePool", {"x": x}, 19, count_include_pad=int(include), **placing(at), **extra
    )
    check(made, {"x": x}, runtime(made, {"x": x}))


@SETTINGS
@given(windows(), st.integers(1, 3))
def test_lp_pool(at: dict[str, Any], p: int) -> None:
    x = normal(0, 2, 3, *at["sizes"])
    extra = {} if at["auto"] != "NOTSET" else {"dilations": at["dilations"]}
    made = model("LpPool", {"x": x}, 18, p=p, **placing(at), **extra)
    check(made, {"x": x}, runtime(made, {"x": x}))


BELOW = [
    (n, k, s)
    for n in range(1, 13)
    for k in (1, 2, 3)
    for s in range(2, 8)
    if (-(-n // s) - 1) * s + k < n
]
"""Extents, windows and strides for which padding comes out below zero."""
PARTS = 8


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["AveragePool", "LpPool"])
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.sampled(6)
def test_padding_that_comes_out_below_zero(op: str, auto: str, part: int) -> None:
    """Strides wider than windows, on one axis and beside a usual one: the windows begin inside."""
    for number, (n, k, s) in enumerate(BELOW[part::PARTS]):
        more = (5,) * (number % 2)
        x = normal(number, 1, 2, n, *more)
        made = model(
            op,
            {"x": x},
            19 if op == "AveragePool" else 18,
            kernel_shape=[k, *(2 for _ in more)],
            strides=[s, *(1 for _ in more)],
            auto_pad=auto,
        )
        check(made, {"x": x}, runtime(made, {"x": x}))


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
def test_a_largest_element_is_sought_where_a_mean_is_taken(auto: str) -> None:
    """ONNX Runtime refuses this of MaxPool; where the windows lie is what AveragePool of places
    gives.
    """
    for number, (n, k, s) in enumerate(BELOW[::9]):
        ramp, x = np.arange(n, dtype=np.float32).reshape(1, 1, n), normal(number, 1, 1, n)
        given: dict[str, Any] = {"kernel_shape": [k], "strides": [s], "auto_pad": auto}
        mean = model("AveragePool", {"x": ramp}, 19, **given)
        starts = np.round(runtime(mean, {"x": ramp})[0].reshape(-1) - (k - 1) / 2).astype(int)
        wanted = np.stack([x[0, 0, a : a + k] for a in starts]).max(1)
        found, places = backend.prepare(model("MaxPool", {"x": x}, 12, outputs=2, **given)).run(
            {"x": x}
        )
        np.testing.assert_array_equal(np.asarray(found).reshape(-1), wanted)
        np.testing.assert_array_equal(x.reshape(-1)[np.asarray(places).reshape(-1)], wanted)


COORDINATES = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
]


@SETTINGS
@given(
    st.sampled_from(["nearest", "linear", "cubic"]), st.sampled_from(COORDINATES), st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["stretch", "not_larger", "not_smaller"]),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=2),
)  # fmt: skip
def test_resize(
    mode: str,
    coordinates: str,
    rounding: str,
    antialias: bool,
    exclude: bool,
    by_scale: bool,
    policy: str,
    sizes: list[tuple[int, int]],
) -> None:
    """Against ONNX's reference, which knows every mode."""
    old, new = [a for a, _ in sizes], [b for _, b in sizes]
    x = normal(0, 1, 2, *old)
    axes = list(range(2, 2 + len(sizes)))
    crop = coordinates == "tf_crop_and_resize"
    roi = np.asarray([0.1] * len(sizes) + [0.8] * len(sizes), np.float32) if crop else None
    scales = np.asarray([b / a for a, b in sizes], np.float32)
    if by_scale and any(int(s * a) < 1 for s, a in zip(scales, old, strict=True)):
        return
    if (
        coordinates == "align_corners"
        and by_scale
        and any(abs(s * a - 1) < 1e-3 for s, a in zip(scales, old, strict=True))
    ):
        return  # one element: whether the product is exactly 1 is a matter of rounding
    inputs = {"x": x, "roi": roi, "scales": scales if by_scale else None} | (
        {} if by_scale else {"sizes": np.asarray(new)}
    )
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "axes": axes,
    }
    if mode == "nearest":
        attributes["nearest_mode"] = rounding
    else:
        attributes |= {"antialias": int(antialias and not crop), "exclude_outside": int(exclude)}
    if not by_scale and not crop:
        attributes["keep_aspect_ratio_policy"] = policy
    if crop:
        attributes["extrapolation_value"] = 7.0
    if mode == "cubic" and coordinates == "pytorch_half_pixel" and 1 in new:
        return  # the reference takes another element than the specification says
    made = model("Resize", inputs, 19, held=frozenset({"roi", "scales", "sizes"}), **attributes)
    check(made, {"x": x}, reference(made, {"x": x}), atol=1e-4)


@SETTINGS
@given(
    st.sampled_from(["linear", "nearest", "cubic"]), st.sampled_from(["zeros", "border", "reflection"]), st.booleans(),
    st.integers(1, 5), st.integers(2, 5), st.booleans(),
)  # fmt: skip
def test_grid_sample(
    mode: str, padding: str, corners: bool, height: int, width: int, deep: bool
) -> None:
    if mode == "cubic" and deep:
        return  # which ONNX Runtime does not have
    inner = (3, height, width) if deep else (height, width)
    x, grid = normal(0, 2, 2, *inner), normal(1, 2, *(2 for _ in inner[1:]), 3, len(inner))
    if corners and min(inner) == 1:
        return
    made = model(
        "GridSample",
        {"x": x, "grid": grid},
        20,
        mode=mode,
        padding_mode=padding,
        align_corners=int(corners),
    )
    check(made, {"x": x, "grid": grid}, runtime(made, {"x": x, "grid": grid}), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_attributes_that_do_not_fit_are_refused(op: str) -> None:
    from xlac_sdk.source import SourceError

    feeds = {"x": normal(0, 1, 2, 5, 5)} | ({"w": normal(1, 2, 2, 3, 3)} if op == "Conv" else {})
    for bad in ({"strides": [0, 1]}, {"pads": [1, 1]}, {"auto_pad": "SAME"}, {"kernel_shape": [3]}):
        made = model(op, feeds, 13, **({"kernel_shape": [3, 3]} | bad))
        with pytest.raises(SourceError):
            backend.prepare(made)
