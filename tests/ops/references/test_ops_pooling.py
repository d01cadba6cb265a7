"""Pooling and resizing against PyTorch's definitions, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference_runs import close, normal, run

from xlac.ir.op import Array


def naive_pool(x: Array, k: int, s: int, p: int, ceil: bool, include: bool, mean: bool) -> Array:
    """PyTorch's pooling over the last axis."""
    n = x.shape[-1]
    count = (math.ceil if ceil else math.floor)((n + 2 * p - k) / s) + 1
    if ceil and (count - 1) * s >= n + p:
        count -= 1
    out = np.zeros((*x.shape[:-1], count))
    for i in range(count):
        start = i * s - p
        size = min(start + k, n + p) - start
        inside = x[..., max(0, start) : min(start + k, n)]
        out[..., i] = (
            inside.sum(-1) / (size if include else inside.shape[-1]) if mean else inside.max(-1)
        )
    return out


@pytest.mark.parametrize(
    "k, s, p", [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 1), (3, 3, 0), (5, 2, 2)]
)
@pytest.mark.parametrize("ceil", [False, True])
def test_pooling(k: int, s: int, p: int, ceil: bool) -> None:
    for n in (5, 7, 8, 11):
        x = normal(2, 3, n)
        given = {"kernel": k, "stride": s, "pad": p, "ceil_mode": ceil}
        close(run("max_pool1d", x, **given), naive_pool(x, k, s, p, ceil, True, False))
        for include in (True, False):
            close(
                run("avg_pool1d", x, **given, count_include_pad=include),
                naive_pool(x, k, s, p, ceil, include, True),
            )


def test_pooling_two_axes_is_pooling_twice() -> None:
    x = normal(2, 3, 9, 8)
    rows = run("max_pool1d", x.reshape(2, 27, 8), kernel=3, stride=2, pad=1).reshape(2, 3, 9, 4)
    both = run(
        "max_pool1d", rows.transpose(0, 1, 3, 2).reshape(2, 12, 9), kernel=3, stride=2, pad=1
    )
    close(
        run("max_pool2d", x, kernel=3, stride=2, pad=1),
        both.reshape(2, 3, 4, 5).transpose(0, 1, 3, 2),
    )


def test_adaptive_pooling() -> None:
    x = normal(2, 3, 7)
    wanted = [x[..., i * 7 // 3 : -(-(i + 1) * 7 // 3)].mean(-1) for i in range(3)]
    close(run("adaptive_avg_pool1d", x, size=3), np.stack(wanted, -1))


def test_resize() -> None:
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    close(run("resize", x[..., :2, :2], scale=2.0), x[..., :2, :2].repeat(2, 2).repeat(2, 3))
    line = np.array([[[0.0, 10.0, 20.0]]])
    close(
        run("resize", line, size=(5,), mode="linear", coordinates="align_corners"),
        [[[0, 5, 10, 15, 20]]],
    )
    close(run("resize", line, scale=2.0, mode="linear"), [[[0, 2.5, 7.5, 12.5, 17.5, 20]]])
    # the example of ONNX's Resize: cubic, scale 2, half_pixel
    wanted = [
        0.47265625,
        0.76953125,
        1.24609375,
        1.875,
        2.28125,
        2.91015625,
        3.38671875,
        3.68359375,
    ]
    found = run("resize", np.arange(1.0, 17).reshape(1, 1, 4, 4), scale=2.0, mode="cubic")
    close(found[0, 0, 0], wanted)
    # Keys' kernel with a = -1/2 gives a parabola back, inside
    smooth = (np.arange(5.0) ** 2).reshape(1, 1, 5)
    found = run("resize", smooth, scale=2.0, mode="cubic", cubic_a=-0.5)[0, 0]
    close(found[3:7], [((i + 0.5) / 2 - 0.5) ** 2 for i in range(3, 7)])
