"""Convolutions against loops that go element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference_runs import close, normal, run

from xlac.ir.op import Array


def naive_conv(
    x: Array, w: Array, stride: Any, low: Any, high: Any, base: Any, dilation: Any, groups: int
) -> Array:
    """A convolution (NC…, OI…) element by element."""
    rank = x.ndim - 2
    for axis in range(rank):
        wide = np.insert(x, np.repeat(np.arange(1, x.shape[axis + 2]), base[axis] - 1), 0, axis + 2)
        around = [(0, 0)] * x.ndim
        around[axis + 2] = (low[axis], high[axis])
        x = np.pad(wide, around)
    size = [
        (x.shape[a + 2] - (w.shape[a + 2] - 1) * dilation[a] - 1) // stride[a] + 1
        for a in range(rank)
    ]
    out = np.zeros((x.shape[0], w.shape[0], *size))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for n, o in np.ndindex(out.shape[:2]):
        group = o // per_out
        for at in np.ndindex(tuple(size)):
            for c in range(per_in):
                for k in np.ndindex(w.shape[2:]):
                    where = tuple(at[a] * stride[a] + k[a] * dilation[a] for a in range(rank))
                    out[(n, o, *at)] += x[(n, group * per_in + c, *where)] * w[(o, c, *k)]
    return out


@pytest.mark.parametrize(
    "given",
    [
        {}, {"strides": (2, 1)}, {"low": (1, 2), "high": (0, 1)}, {"lhs_dilation": (2, 3)},
        {"rhs_dilation": (2, 1)}, {"feature_groups": 2},
        {"strides": (2, 2), "low": (1, 1), "high": (1, 1), "lhs_dilation": (2, 1),
         "rhs_dilation": (1, 2), "feature_groups": 4},
    ],
    ids=str,
)  # fmt: skip
def test_general_convolution(given: dict[str, Any]) -> None:
    known = {
        "strides": (1, 1),
        "low": (0, 0),
        "high": (0, 0),
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
        "feature_groups": 1,
    } | given
    x, w = normal(2, 4, 6, 5), normal(4, 4 // known["feature_groups"], 3, 2)
    wanted = naive_conv(
        x,
        w,
        known["strides"],
        known["low"],
        known["high"],
        known["lhs_dilation"],
        known["rhs_dilation"],
        known["feature_groups"],
    )
    close(run("conv", x, w, **known), wanted)
    last = run(
        "conv",
        np.moveaxis(x, 1, -1),
        w.transpose(2, 3, 1, 0),
        **known,
        layout=("NHWC", "HWIO", "NHWC"),
    )
    close(last, np.moveaxis(wanted, 1, -1))


def test_batch_groups_convolve_apart() -> None:
    x, w = normal(4, 3, 6), normal(4, 3, 2)
    one = {
        "strides": (1,),
        "low": (0,),
        "high": (0,),
        "lhs_dilation": (1,),
        "rhs_dilation": (1,),
        "layout": ("NCW", "OIW", "NCW"),
    }
    parts = [run("conv", x[2 * g : 2 * g + 2], w[2 * g : 2 * g + 2], **one) for g in range(2)]
    close(run("conv", x, w, batch_groups=2, **one), np.concatenate(parts, 1))


def test_conv2d_is_correlation() -> None:
    from scipy import signal  # three seconds, which only who runs this waits

    x, w, b = normal(1, 1, 9, 8), normal(1, 1, 3, 3), normal(1)
    close(
        run("conv2d", x, w, b, filters=1, kernel=3)[0, 0],
        signal.correlate2d(x[0, 0], w[0, 0], "valid") + b,
    )
    close(
        run("conv2d", x, w, b, filters=1, kernel=3, pad=1)[0, 0],
        signal.correlate2d(x[0, 0], w[0, 0], "same") + b,
    )


@pytest.mark.parametrize("size", [7, 8])
def test_same_padding_says_which(size: int) -> None:
    x, w = normal(1, 1, size), np.ones((1, 1, 4))
    for pad, low, high in (("same_upper", 1, 2), ("same_lower", 2, 1)):
        if size % 2:  # stride 2, kernel 4: (ceil(7 / 2) - 1) * 2 + 4 - 7 = 3
            close(
                run("conv1d", x, w, filters=1, kernel=4, stride=2, pad=pad, bias=False),
                naive_conv(x, w, (2,), (low,), (high,), (1,), (1,), 1),
            )
    assert run(
        "conv1d", x, w, filters=1, kernel=4, stride=2, pad="same_upper", bias=False
    ).shape == (1, 1, 4)


@pytest.mark.parametrize(
    "stride, pad, extra, dilation, groups",
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (3, 0, 0, 2, 1), (2, 1, 0, 1, 2)],
)
def test_transposed_convolution_is_the_gradient(
    stride: int, pad: int, extra: int, dilation: int, groups: int
) -> None:
    """Each element of x adds its multiple of the kernel to the result."""
    x, w = normal(2, 4, 5), normal(4, 6 // groups, 3)
    length = (5 - 1) * stride + (3 - 1) * dilation + 1
    out = np.zeros((2, 6, length + extra))
    for n, c, i in np.ndindex(x.shape):
        group = c // (4 // groups)
        for o, k in np.ndindex(w.shape[1:]):
            out[n, group * (6 // groups) + o, i * stride + k * dilation] += x[n, c, i] * w[c, o, k]
    out = out[:, :, pad : length + extra - pad]
    given = {
        "filters": 6,
        "kernel": 3,
        "stride": stride,
        "pad": pad,
        "dilation": dilation,
        "groups": groups,
        "output_padding": extra,
    }
    close(run("conv_transpose1d", x, w, bias=False, **given), out)
