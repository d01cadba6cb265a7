"""What operations mean, against NumPy, SciPy and straightforward implementations that know nothing
of xlac.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from scipy import signal

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

RNG = np.random.default_rng(7)


def run(name: str, *arrays: Any, **attributes: Any) -> Any:
    """The results of an operation made as users make it."""
    given = [np.asarray(a) for a in arrays]
    params = tuple(build.param(f"x{n}", DType.of(a.dtype), a.shape) for n, a in enumerate(given))
    made = build.apply(name, *params, **attributes)
    nodes = made if isinstance(made, tuple) else (made,)
    graph = Graph(name, params, {f"y{n}": node for n, node in enumerate(nodes)})
    with np.errstate(all="ignore"):
        found = list(interpret(graph, {f"x{n}": a for n, a in enumerate(given)}).values())
    return found if len(found) > 1 else found[0]


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


def close(found: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, tolerance, tolerance)


# ---- scalar functions --------------------------------------------------------------------------

EDGES = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.7,
        3.0,
        -3.0,
        20.0,
        -20.0,
        700.0,
        -700.0,
        1e-300,
        np.inf,
        -np.inf,
        np.nan,
    ]
)
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "round": np.rint,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log1p": np.log1p, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt,
    "square": np.square, "reciprocal": lambda x: 1 / x, "erf": scipy.special.erf, "sigmoid": scipy.special.expit,
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6), "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "softplus": lambda x: np.logaddexp(x, 0), "softsign": lambda x: x / (1 + np.abs(x)),
    "gelu": lambda x: np.where(np.isneginf(x), -0.0, x * scipy.special.ndtr(x)), "silu": lambda x: x * scipy.special.expit(x), "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_function(name: str) -> None:
    x = np.concatenate([EDGES, normal(200) * 3])
    if name in ("sin", "cos", "tan"):
        x = x[np.abs(x) < 100]
    with np.errstate(all="ignore"):
        wanted = UNARY[name](x)
    found = run(name, x)
    np.testing.assert_allclose(found, wanted, 1e-12, 1e-15)


def test_python_remainder_and_quotient() -> None:
    for x, y in itertools.product(range(-7, 8), range(-3, 4)):
        if y:
            assert run("mod", np.int32(x), np.int32(y)) == x % y
            assert run("floor_divide", np.int32(x), np.int32(y)) == x // y
            assert run("rem", np.int32(x), np.int32(y)) == math.fmod(x, y)
            assert run("div", np.int32(x), np.int32(y)) == int(x / y)
    assert run("div", np.int8(-128), np.int8(-1)) == -128
    assert run("div", np.int32(5), np.int32(0)) == -1
    assert run("rem", np.int32(5), np.int32(0)) == 5
    assert run("div", np.uint8(5), np.uint8(0)) == 255


def test_bits() -> None:
    values = [0, 1, 2, 3, 127, 128, 255]
    x = np.array(values, np.uint8)
    assert run("popcnt", x).tolist() == [v.bit_count() for v in values]
    assert run("clz", x).tolist() == [8 - v.bit_length() for v in values]
    assert run("shl", x, np.full(7, 8, np.uint8)).tolist() == [0] * 7
    assert run("shr", np.array([-5, 5], np.int16), np.array([99, 99], np.int16)).tolist() == [-1, 0]


def test_conversions() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 300.7, -300.7, 0.9, -0.9])
    assert run("cast", x, dtype=DType.I8).tolist() == [0, 127, -128, 127, -128, 0, 0]
    assert run("cast", x, dtype=DType.U8).tolist() == [0, 255, 0, 255, 0, 0, 0]
    assert run("cast", x, dtype=DType.BOOL).tolist() == [True] * 7
    assert run("cast", np.array([300, -1]), dtype=DType.U8).tolist() == [44, 255]


def test_extremes_of_nan_and_zeros() -> None:
    assert np.isnan(run("max", np.float32(np.nan), np.float32(1)))
    assert np.isnan(run("min", np.float32(1), np.float32(np.nan)))
    assert not np.signbit(run("max", -0.0, 0.0)) and np.signbit(run("min", 0.0, -0.0))
    assert np.isnan(run("reduce_max", np.array([1.0, np.nan, 2.0])))
    assert run("reduce_max", np.zeros((2, 0))[:, :0], axis=1).tolist() == [-np.inf] * 2


# ---- contractions ------------------------------------------------------------------------------


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
        {}, {"strides": (2, 1)}, {"low": (1, 2), "high": (0, 1)}, {"lhs_dilation": (2, 3)}, {"rhs_dilation": (2, 1)}, {"feature_groups": 2},
        {"strides": (2, 2), "low": (1, 1), "high": (1, 1), "lhs_dilation": (2, 1), "rhs_dilation": (1, 2), "feature_groups": 4},
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


def test_dot_is_einsum() -> None:
    a, b = normal(2, 3, 4, 5), normal(4, 2, 6, 5)
    found = run(
        "dot", a, b, batch_lhs=(0,), batch_rhs=(1,), contract_lhs=(2, 3), contract_rhs=(0, 3)
    )
    close(found, np.einsum("bijk,jbck->bic", a, b))


def test_wider_results() -> None:
    a = np.full((1, 1000), 100, np.int8)
    assert run("dot", a, a, contract_lhs=(1,), contract_rhs=(1,), out_dtype=DType.I32) == 10_000_000


# ---- windows -----------------------------------------------------------------------------------


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


# ---- attention, normalization, recurrence ------------------------------------------------------


def naive_attention(
    q: Array, k: Array, v: Array, allowed: Callable[[int, int], bool], add: Array | None = None
) -> Array:
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    share = q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        scores = np.array(
            [q[b, h, i] @ k[b, h // share, j] / math.sqrt(q.shape[-1]) for j in range(k.shape[2])]
        )
        if add is not None:
            scores = scores + np.broadcast_to(add, (*q.shape[:3], k.shape[2]))[b, h, i]
        seen = [j for j in range(k.shape[2]) if allowed(i, j)]
        weights = np.exp(scores[seen] - max(scores[seen]))
        out[b, h, i] = (weights / weights.sum()) @ v[b, h // share, seen]
    return out


@pytest.mark.parametrize("heads, shared", [(4, 4), (4, 2), (4, 1)])
def test_attention(heads: int, shared: int) -> None:
    q, k, v = normal(2, heads, 3, 8), normal(2, shared, 5, 8), normal(2, shared, 5, 6)
    close(run("attention", q, k, v), naive_attention(q, k, v, lambda i, j: True))
    close(run("attention", q, k, v, causal=True), naive_attention(q, k, v, lambda i, j: j <= i + 2))
    mask = RNG.random((3, 5)) < 0.7
    mask[:, 0] = True
    close(run("attention", q, k, v, mask), naive_attention(q, k, v, lambda i, j: bool(mask[i, j])))
    bias = normal(2, heads, 3, 5)
    close(run("attention", q, k, v, bias), naive_attention(q, k, v, lambda i, j: True, bias))
    joined = [x.transpose(0, 2, 1, 3).reshape(2, x.shape[2], -1) for x in (q, k, v)]
    wanted = naive_attention(q, k, v, lambda i, j: True).transpose(0, 2, 1, 3).reshape(2, 3, -1)
    close(run("attention", *joined, heads=heads, kv_heads=shared), wanted)


def test_caches_agree_with_attention_to_everything() -> None:
    q, k, v = normal(2, 3, 6, 8), normal(2, 3, 6, 8), normal(2, 3, 6, 8)
    whole = run("attention", q, k, v, causal=True)
    y, keys, values = run(
        "attention_with_past", q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], k[:, :, :4], v[:, :, :4]
    )
    close(y, whole[:, :, 4:])
    close(keys, k)
    close(values, v)
    room = np.zeros((2, 3, 9, 8))
    cache_k, cache_v, steps = room, room, []
    for t in range(6):
        now = slice(t, t + 1)
        y, cache_k, cache_v = run(
            "attention_with_cache",
            q[:, :, now],
            k[:, :, now],
            v[:, :, now],
            cache_k,
            cache_v,
            np.int32(t),
        )
        steps.append(y)
    close(np.concatenate(steps, 2), whole)


def test_a_query_that_may_look_nowhere_gets_the_mean() -> None:
    q, k, v = normal(1, 1, 2, 4), normal(1, 1, 3, 4), normal(1, 1, 3, 4)
    mask = np.array([[True] * 3, [False] * 3])
    close(run("attention", q, k, v, mask)[0, 0, 1], v[0, 0].mean(0))


def test_rotary_embedding() -> None:
    x = normal(2, 3, 5, 8)
    angle = np.arange(5)[:, None] * 10000.0 ** (-2 * np.arange(4) / 8)
    turn = np.exp(1j * angle)
    halves = (x[..., :4] + 1j * x[..., 4:]) * turn
    close(run("rotary_embedding", x), np.concatenate([halves.real, halves.imag], -1))
    pairs = (x[..., ::2] + 1j * x[..., 1::2]) * turn
    close(
        run("rotary_embedding", x, interleaved=True),
        np.stack([pairs.real, pairs.imag], -1).reshape(x.shape),
    )
    moved = run("rotary_embedding", x[:, :, 3:], np.arange(3, 5))
    close(moved, run("rotary_embedding", x)[:, :, 3:])


def test_normalizations() -> None:
    x, w, b = normal(2, 6, 5, 3), normal(6), normal(6)
    m, v = normal(6), RNG.uniform(0.1, 2, 6)
    shaped = [p[:, None, None] for p in (w, b, m, v)]
    close(
        run("batch_norm", x, w, b, m, v),
        (x - shaped[2]) / np.sqrt(shaped[3] + 1e-5) * shaped[0] + shaped[1],
    )

    def standard(a: Array, axes: Any) -> Array:
        return (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + 1e-5)

    close(run("instance_norm", x, w, b), standard(x, (2, 3)) * shaped[0] + shaped[1])
    close(
        run("group_norm", x, w, b, groups=3),
        standard(x.reshape(2, 3, -1), -1).reshape(x.shape) * shaped[0] + shaped[1],
    )
    w2, b2 = normal(5, 3), normal(5, 3)
    close(run("layer_norm", x, w2, b2, axis=-2), standard(x, (2, 3)) * w2 + b2)
    w3 = normal(3)
    close(run("rms_norm", x, w3), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * w3)
    square = np.pad(x**2, ((0, 0), (2, 2), (0, 0), (0, 0)))
    total = sum(square[:, i : i + 6] for i in range(5))
    close(run("local_response_norm", x, size=5, alpha=0.1), x / (1 + 0.1 / 5 * total) ** 0.75)


def test_recurrent_cells() -> None:
    x, h, c = normal(3, 5), normal(3, 4), normal(3, 4)
    w, r, b, rb = normal(16, 5), normal(16, 4), normal(16), normal(16)
    i, f, g, o = np.split(x @ w.T + h @ r.T + b + rb, 4, -1)
    expit = scipy.special.expit
    new = expit(f) * c + expit(i) * np.tanh(g)
    found = run("lstm_cell", x, h, c, w, r, b, rb)
    close(found[0], expit(o) * np.tanh(new))
    close(found[1], new)
    w, r, b, rb = w[:12], r[:12], b[:12], rb[:12]
    (xr, xz, xn), (hr, hz, hn) = np.split(x @ w.T + b, 3, -1), np.split(h @ r.T + rb, 3, -1)
    z = expit(xz + hz)
    close(run("gru_cell", x, h, w, r, b, rb), (1 - z) * np.tanh(xn + expit(xr + hr) * hn) + z * h)


# ---- resizing, losses, order -------------------------------------------------------------------


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


def test_losses() -> None:
    x, y = normal(4, 6), normal(4, 6)
    target = np.array([0, 5, 2, 2])
    logs = scipy.special.log_softmax(x, -1)
    close(run("cross_entropy", x, target), -logs[range(4), target].mean())
    close(run("softmax_cross_entropy", x, target), -logs[range(4), target])
    p = scipy.special.softmax(y, -1)
    close(run("cross_entropy", x, p), -(logs * p).sum(-1).mean())
    close(run("mse_loss", x, y), ((x - y) ** 2).mean())
    close(run("l1_loss", x, y, reduction="sum"), np.abs(x - y).sum())
    close(run("huber_loss", x, y, delta=0.7), scipy.special.huber(0.7, x - y).mean())
    close(run("kl_div", logs, p, reduction="sum"), scipy.special.rel_entr(p, np.exp(logs)).sum())
    probability, truth = scipy.special.expit(x), (y > 0).astype(float)
    wanted = -(truth * np.log(probability) + (1 - truth) * np.log1p(-probability)).mean()
    close(run("binary_cross_entropy", probability, truth), wanted)
    close(run("binary_cross_entropy_with_logits", x, truth), wanted)


def test_order() -> None:
    x = np.array([[3.0, np.nan, 1.0, 3.0, -np.inf], [0.0, -0.0, 5.0, np.nan, np.nan]])
    np.testing.assert_array_equal(run("sort", x), np.sort(x))
    np.testing.assert_array_equal(run("argsort", x), np.argsort(x, kind="stable"))
    values, places = run("topk", x, k=3)
    np.testing.assert_array_equal(values, [[np.nan, 3, 3], [np.nan, np.nan, 5]])
    np.testing.assert_array_equal(places, [[1, 0, 3], [3, 4, 2]])
    down = run("sort", x, axis=0, descending=True)
    np.testing.assert_array_equal(down[0], [3, np.nan, 5, np.nan, np.nan])
    keys, values = run("sort", np.array([2, 1, 2, 1]), np.array([5, 7, 3, 6]), keys=2)
    assert keys.tolist() == [1, 1, 2, 2] and values.tolist() == [6, 7, 3, 5]


def test_choosing() -> None:
    x = normal(4, 5)
    close(run("take", x, np.array([[0, -1], [9, 2]])), x[[[0, -1], [3, 2]]])
    i = np.array([[0, 4], [1, -1], [2, 2], [3, 0]])
    close(run("take_along_axis", x, i), np.take_along_axis(x, i, 1))
    close(run("gather_nd", x, np.array([[0, 1], [3, 4]])), x[[0, 3], [1, 4]])
    wanted = x.copy()
    np.add.at(wanted, ([0, 1, 1], [2, 2, 2]), [1.0, 2.0, 3.0])
    close(
        run(
            "scatter_nd",
            x,
            np.array([[0, 2], [1, 2], [1, 2]]),
            np.array([1.0, 2.0, 3.0]),
            combine="add",
        ),
        wanted,
    )
    close(
        run("one_hot", np.array([1, -1, 7, 0]), depth=3),
        [[0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]],
    )


def test_cumulative() -> None:
    x = normal(3, 5)
    close(run("cumsum", x), x.cumsum(-1))
    close(run("cumsum", x, axis=0, reverse=True), x[::-1].cumsum(0)[::-1])
    close(
        run("cumprod", x, exclusive=True),
        np.concatenate([np.ones((3, 1)), x.cumprod(-1)[:, :-1]], -1),
    )
    close(run("cummax", x), np.maximum.accumulate(x, -1))


def test_einsum_covers_numpy() -> None:
    a, b = normal(2, 3, 4), normal(4, 3, 2)
    for equation in (
        "ijk,kji->",
        "ijk,kjl->il",
        "ijk,kli->jl",
        "ijk,kji->j",
        "i...k,k...l->i...l",
        "ij...,...jl->...l",
    ):
        close(run("einsum", a, b, equation=equation), np.einsum(equation, a, b))


# ---- linear algebra and precision --------------------------------------------------------------


@pytest.mark.parametrize(
    "left, lower, unit, transpose", list(itertools.product((True, False), repeat=4))
)
def test_triangular_solve(left: bool, lower: bool, unit: bool, transpose: bool) -> None:
    a, b = normal(2, 4, 4) + 3 * np.eye(4), normal(2, 4, 3)
    b = b if left else b.transpose(0, 2, 1)
    x = run("triangular_solve", a, b, left=left, lower=lower, unit=unit, transpose=transpose)
    part = np.tril(a) if lower else np.triu(a)
    if unit:
        part = part - np.einsum("bii,ij->bij", part, np.eye(4)) + np.eye(4)
    part = part.transpose(0, 2, 1) if transpose else part
    close(part @ x if left else x @ part, b)


def test_cholesky() -> None:
    half = normal(2, 4, 4)
    a = half @ half.transpose(0, 2, 1) + np.eye(4)
    close(run("cholesky", np.tril(a)), np.linalg.cholesky(a))
    close(run("cholesky", np.triu(a), lower=False), np.linalg.cholesky(a).transpose(0, 2, 1))


def test_fft() -> None:
    x = normal(3, 6) + 1j * normal(3, 6)
    real, imaginary = run("fft", x.real, x.imag)
    close(real + 1j * imaginary, np.fft.fft(x))
    real, imaginary = run("fft", x.real, x.imag, axis=0, inverse=True)
    close(real + 1j * imaginary, np.fft.ifft(x, axis=0))


def test_reduced_precision() -> None:
    x = (normal(2000) * 100).astype(np.float32)
    np.testing.assert_array_equal(
        run("reduce_precision", x, exponent_bits=5, mantissa_bits=10),
        x.astype(np.float16).astype(np.float32),
    )
    bfloat = DType.BF16.numpy
    np.testing.assert_array_equal(run("reduce_precision", x), x.astype(bfloat).astype(np.float32))
    edges = np.array(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, 65519.0, 65520.0, -65520.0, 1e-6, -1e-6, 6.2e-5],
        np.float32,
    )
    found = run("reduce_precision", edges, exponent_bits=5, mantissa_bits=10)
    np.testing.assert_array_equal(
        found,
        np.array(
            [np.nan, np.inf, -np.inf, 0, 0, 65504, np.inf, -np.inf, 0, 0, np.float16(6.2e-5)],
            np.float32,
        ),
    )
    assert np.signbit(found[[4, 9]]).all()
    assert run("round_half_away", np.array([0.5, -0.5, 1.5, 2.5, -2.5, 0.49])).tolist() == [
        1,
        -1,
        2,
        3,
        -3,
        0,
    ]


# ---- random bits -------------------------------------------------------------------------------


def test_generators_give_the_published_numbers() -> None:
    """Known answers of Random123 (Salmon et al., 2011), for key and counter of zeros and of ones."""
    ones = 0xFFFFFFFFFFFFFFFF
    state, bits = run("rng_bits", np.zeros(2, np.uint64), algorithm="threefry", shape=(2,))
    assert [hex(v) for v in bits.tolist()] == ["0x6b200159", "0x99ba4efe"]
    assert state.tolist() == [0, 1]
    _, bits = run("rng_bits", np.full(2, ones, np.uint64), algorithm="threefry", shape=(2,))
    assert [hex(v) for v in bits.tolist()] == ["0x1cb996fc", "0xbb002be7"]
    _, bits = run("rng_bits", np.zeros(3, np.uint64), algorithm="philox", shape=(4,))
    assert [hex(v) for v in bits.tolist()] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]
    state, bits = run("rng_bits", np.full(3, ones, np.uint64), algorithm="philox", shape=(4,))
    assert [hex(v) for v in bits.tolist()] == [
        "0x408f276d",
        "0x41c83b0e",
        "0xa20bc7c6",
        "0x6d5451fd",
    ]
    assert state.tolist() == [ones, 0, 0]


def test_generators_go_on_where_they_stopped() -> None:
    start = np.array([5, 7], np.uint64)
    _, whole = run("rng_bits", start, shape=(12,))
    middle, first = run("rng_bits", start, shape=(6,))
    _, second = run("rng_bits", middle, shape=(6,))
    assert np.array_equal(np.concatenate([first, second]), whole)


# ---- control -----------------------------------------------------------------------------------


def test_scatter_by_body_and_reduce_by_body() -> None:
    from xlac.ir.types import Type
    from xlac.ops.reduction.reduction import Reduce
    from xlac.ops.tensor.scatter import Scatter

    f64 = Type(DType.F64)
    body = build.graph("combine", [f64, f64], lambda a, b: build.add(build.mul(a, 2.0), b))
    x, i, u = (
        build.param(n, t, s)
        for n, t, s in (("x", DType.F64, (4,)), ("i", DType.I64, (3, 1)), ("u", DType.F64, (3,)))
    )
    node = Node.of(Scatter((), (0,), (), (), (0,), 1, "body", body), x, i, u)
    inputs = {"x": np.ones(4), "i": np.array([[1], [1], [7]]), "u": np.array([10.0, 100.0, 9.0])}
    assert interpret(Graph("g", (x, i, u), {"y": node}), inputs)["y"].tolist() == [1, 124, 1, 1]
    pair = [f64, Type(DType.I64)]

    def larger(a: Node, i: Node, b: Node, j: Node) -> tuple[Node, Node]:
        keep = build.compare(a, "ge", b)
        return build.select(keep, a, b), build.select(keep, i, j)

    best = build.graph("argmax", [*pair, *pair], larger)
    x = build.param("x", DType.F64, (2, 5))
    operands = (
        x,
        build.iota((2, 5), 1),
        build.constant(-np.inf, DType.F64),
        build.constant(-1, DType.I64),
    )
    node = Node.of(Reduce((1,), "body", best), *operands)
    values = normal(2, 5)
    found = interpret(
        Graph("g", (x,), {"v": build.pick(node, 0), "i": build.pick(node, 1)}), {"x": values}
    )
    assert np.array_equal(found["i"], values.argmax(1)) and np.array_equal(
        found["v"], values.max(1)
    )


def test_loops_and_branches() -> None:
    from xlac.ir.types import Type
    from xlac.ops.control.control import Call, Cond, Scan, While

    i32, f64 = Type(DType.I32), Type(DType.F64)
    below = build.graph("below", [i32, f64], lambda n, x: build.compare(n, "lt", 5))
    step = build.graph("step", [i32, f64], lambda n, x: (build.add(n, 1), build.mul(x, 2.0)))
    x = build.param("x", DType.F64)
    loop = Node.of(While(below, step), build.constant(0, DType.I32), x)
    twice = Node.of(Call(build.graph("twice", [f64], lambda a: build.mul(a, 2.0)), "twice"), x)
    which = build.param("which", DType.I32)
    branches = tuple(
        build.graph(f"b{k}", [f64], lambda a, k=k: build.add(a, float(k))) for k in range(3)
    )
    chosen = Node.of(Cond(branches), which, x)
    xs = build.param("xs", DType.F64, (4,))
    total = build.graph(
        "total", [f64, f64, f64], lambda c, v, k: (build.add(c, build.mul(v, k)), build.add(c, v))
    )
    for reverse in (False, True):
        scan = Node.of(Scan(total, 4, 1, 1, reverse), build.constant(0.0, DType.F64), xs, x)
        outputs = {
            "loop": build.pick(loop, 1),
            "twice": twice,
            "chosen": chosen,
            "c": build.pick(scan, 0),
            "ys": build.pick(scan, 1),
        }
        graph = Graph("g", (x, which, xs), outputs)
        values = np.array([1.0, 2.0, 3.0, 4.0])
        for number, wanted in ((0, 3.0), (2, 5.0), (7, 5.0), (-1, 5.0)):
            found = interpret(graph, {"x": np.float64(3), "which": np.int32(number), "xs": values})
            assert found["chosen"] == wanted and found["loop"] == 96 and found["twice"] == 6
        assert found["c"] == 30
        assert found["ys"].tolist() == ([28.0, 23.0, 15.0, 4.0] if reverse else [1, 5, 12, 22])
    assert "scan" in OPS
