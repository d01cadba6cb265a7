"""Random attributes of Resize and GridSample, against ONNX Runtime or, where it lacks a mode,
ONNX's reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from window_models import SETTINGS, check, model, normal, reference, runtime

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
    st.sampled_from(["nearest", "linear", "cubic"]),
    st.sampled_from(COORDINATES),
    st.sampled_from(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["stretch", "not_larger", "not_smaller"]),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), min_size=1, max_size=2),
)
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
    st.sampled_from(["linear", "nearest", "cubic"]),
    st.sampled_from(["zeros", "border", "reflection"]),
    st.booleans(),
    st.integers(1, 5),
    st.integers(2, 5),
    st.booleans(),
)
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
