"""Random attributes of convolutions and pools, against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_node import backend
from window_models import SETTINGS, check, model, normal, placing, runtime, windows


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
@pytest.mark.sampled(12)
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


@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_attributes_that_do_not_fit_are_refused(op: str) -> None:
    from xlac_sdk.source import SourceError

    feeds = {"x": normal(0, 1, 2, 5, 5)} | ({"w": normal(1, 2, 2, 3, 3)} if op == "Conv" else {})
    for bad in ({"strides": [0, 1]}, {"pads": [1, 1]}, {"auto_pad": "SAME"}, {"kernel_shape": [3]}):
        made = model(op, feeds, 13, **({"kernel_shape": [3, 3]} | bad))
        with pytest.raises(SourceError):
            backend.prepare(made)
