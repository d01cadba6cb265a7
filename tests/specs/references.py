"""What each shipped spec means, written directly in NumPy float64, knowing nothing of xlac.

Each function takes the weights by name and the inputs by name and returns the outputs by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Array = NDArray[Any]
Arrays = Mapping[str, Array]
Reference = Callable[[Arrays, Arrays], dict[str, Array]]


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def linear(w: Arrays, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(w: Arrays, name: str, x: Array, epsilon: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def conv2d(x: Array, kernel: Array, stride: int, pad: int, groups: int = 1) -> Array:
    """NCHW data, OIHW weights, by gathering patches."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    k = kernel.shape[-1]
    patches = np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[:, :, ::stride, ::stride]
    if groups > 1:  # depthwise
        return np.einsum("nchwij,cij->nchw", patches, kernel[:, 0])
    return np.moveaxis(np.tensordot(patches, kernel, ((1, 4, 5), (1, 2, 3))), -1, 1)


def batch_norm(w: Arrays, name: str, x: Array) -> Array:
    def shaped(part: str) -> Array:
        return w[f"{name}.{part}"][:, None, None]

    return (x - shaped("mean")) / np.sqrt(shaped("variance") + 1e-5) * shaped("weight") + shaped(
        "bias"
    )


def conv_bn(
    w: Arrays, name: str, x: Array, stride: int = 1, pad: int = 0, groups: int = 1
) -> Array:
    return batch_norm(w, f"{name}.norm", conv2d(x, w[f"{name}.conv.weight"], stride, pad, groups))


def max_pool(x: Array, k: int, stride: int, pad: int) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[
        :, :, ::stride, ::stride
    ].max((-1, -2))


# ---- one for each spec -----------------------------------------------------------------------


def spec_softmax(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"y": softmax(i["x"])}


def spec_bias_relu_softmax(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"y": softmax(relu(linear(w, "logits", i["x"])))}


def spec_mul_add_reduce(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"total": np.sum(i["x"] + i["y"] * i["z"])}


def spec_elementwise_chain(w: Arrays, i: Arrays) -> dict[str, Array]:
    x, y = i["x"], i["y"]
    a = gelu_tanh(x)
    b = np.clip(a * y + 0.1, -2, 2)
    d = relu(sigmoid(b) * x) - np.abs(y) * 0.25
    return {"out": -(np.tanh(d) / (a * a + 1))}


def spec_layernorm_gelu(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"y": gelu(layer_norm(w, "norm", i["x"]))}


def spec_mlp_small(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"y": linear(w, "y", relu(linear(w, "l2", relu(linear(w, "l1", i["x"])))))}


def spec_digits(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"probs": softmax(linear(w, "logits", relu(linear(w, "h1", i["image"]))))}


def spec_tagger(w: Arrays, i: Arrays) -> dict[str, Array]:
    rows = [
        w[f"{part}_rows.weight"][i[f"{part}_ids"].astype(int)] for part in ("word", "tag", "label")
    ]
    x = np.concatenate(rows).reshape(1, -1)
    return {"y": softmax(linear(w, "logits", relu(linear(w, "l2", relu(linear(w, "l1", x))))))}


def lstm_cell(w: Arrays, name: str, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """The next h and c."""
    gates = x @ w[f"{name}.weight_0"].T + h @ w[f"{name}.weight_1"].T + w[f"{name}.bias"]
    a, f, g, o = np.split(gates, 4, -1)
    c = sigmoid(f) * c + sigmoid(a) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def lstm_stream(w: Arrays, xs: Array) -> Array:
    """What a stream of inputs, the first axis, gives from the beginning."""
    h, c = np.zeros((2, 3, *xs.shape[1:]))
    found = []
    for value in xs:
        for layer, name in enumerate(("low", "middle", "high")):
            h[layer], c[layer] = lstm_cell(w, f"{name}.gates", value, h[layer], c[layer])
            value = h[layer]
        found.append(value.copy())
    return np.stack(found)


def spec_lstm_stream(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"y": lstm_stream(w, i["x"][None])[0]}


def spec_lstm_3x60(w: Arrays, i: Arrays) -> dict[str, Array]:
    x = i["x"]
    batch, steps, width = x.shape
    h, c = np.zeros((3, batch, width)), np.zeros((3, batch, width))
    top = []
    for t in range(steps):
        value = x[:, t]
        for layer in range(3):
            h[layer], c[layer] = lstm_cell(w, f"rnn.layer.{layer}.gates", value, h[layer], c[layer])
            value = h[layer].copy()
        top.append(value)
    return {"y": np.stack(top, 1), "h_n": h}


def spec_resnet50(w: Arrays, i: Arrays) -> dict[str, Array]:
    x = max_pool(relu(conv_bn(w, "stem", i["image"], 2, 3)), 3, 2, 1)
    for stage, repeats in (("c2", 3), ("c3", 4), ("c4", 6), ("c5", 3)):
        for block in range(repeats):
            name = f"{stage}.{block}"
            stride = 2 if block == 0 and stage != "c2" else 1
            y = relu(conv_bn(w, f"{name}.a", x))
            y = relu(conv_bn(w, f"{name}.b", y, stride, 1))
            y = conv_bn(w, f"{name}.c", y)
            skip = conv_bn(w, f"{name}.skip", x, stride) if block == 0 else x
            x = relu(y + skip)
    return {"logits": linear(w, "logits", x.mean((2, 3)))}


def spec_mobilenet_v2(w: Arrays, i: Arrays) -> dict[str, Array]:
    def relu6(x: Array) -> Array:
        return np.clip(x, 0, 6)

    def inverted(name: str, x: Array, stride: int = 1, add: bool = True) -> Array:
        y = relu6(conv_bn(w, f"{name}.expand", x))
        y = relu6(conv_bn(w, f"{name}.filter", y, stride, 1, y.shape[1]))
        y = conv_bn(w, f"{name}.project", y)
        return y + x if add else y

    x = relu6(conv_bn(w, "stem", i["image"], 2, 1))
    x = conv_bn(w, "b0", relu6(conv_bn(w, "b0_filter", x, 1, 1, 32)))
    plan = [
        ("b1", 2, False), ("b2", 1, True), ("b3", 2, False), ("b4.0", 1, True), ("b4.1", 1, True),
        ("b6", 2, False), ("b7.0", 1, True), ("b7.1", 1, True), ("b7.2", 1, True),
        ("b10", 1, False), ("b11.0", 1, True), ("b11.1", 1, True), ("b13", 2, False),
        ("b14.0", 1, True), ("b14.1", 1, True), ("b16", 1, False),
    ]  # fmt: skip
    for name, stride, add in plan:
        x = inverted(name, x, stride, add)
    x = relu6(conv_bn(w, "head", x))
    return {"logits": linear(w, "logits", x.mean((2, 3)))}


def spec_bert_layer(w: Arrays, i: Arrays) -> dict[str, Array]:
    x = i["hidden"]
    batch, sequence, hidden = x.shape

    def heads(name: str) -> Array:
        return linear(w, name, x).reshape(batch, sequence, 12, -1).transpose(0, 2, 1, 3)

    q, k, v = heads("q"), heads("k"), heads("v")
    scores = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(hidden // 12) + i["mask"])
    context = (scores @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    a = layer_norm(w, "ln1", linear(w, "o", context) + x, 1e-12)
    return {"y": layer_norm(w, "ln2", linear(w, "down", gelu(linear(w, "up", a))) + a, 1e-12)}


def spec_gpt2_decode(w: Arrays, i: Arrays) -> dict[str, Array]:
    x = i["x"]
    batch, _, hidden = x.shape
    parts = np.split(linear(w, "qkv", layer_norm(w, "ln1", x)), 3, -1)
    q, k, v = (p.reshape(batch, 1, 12, -1).transpose(0, 2, 1, 3) for p in parts)
    keys, values = np.concatenate([i["k_cache"], k], 2), np.concatenate([i["v_cache"], v], 2)
    mixed = softmax(q @ keys.swapaxes(-1, -2) / 8) @ values
    a = x + linear(w, "o", mixed.transpose(0, 2, 1, 3).reshape(batch, 1, hidden))
    up = gelu_tanh(linear(w, "up", layer_norm(w, "ln2", a)))
    return {"y": a + linear(w, "down", up), "k_new": k, "v_new": v}


def spec_loop_scan(w: Arrays, i: Arrays) -> dict[str, Array]:
    mean = np.zeros(16)
    history = np.zeros(i["x"].shape)
    for t in reversed(range(len(history))):
        mean = mean + i["rate"] * (i["x"][t] - mean)
        history[t] = mean
    return {"mean": mean, "history": history}


def spec_loop_while(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"root": np.sqrt(i["x"])}


def spec_branch_cond(w: Arrays, i: Arrays) -> dict[str, Array]:
    x = i["x"]
    one = [relu, np.tanh, np.negative][min(int(i["choice"]), 2)]
    return {"either": x @ x if i["flag"] else x.T, "one": one(x)}


def spec_custom_op(w: Arrays, i: Arrays) -> dict[str, Array]:
    return {"y": gelu_tanh(i["x"] * i["scale"])}


REFERENCES: dict[str, Reference] = {
    name.removeprefix("spec_"): function
    for name, function in list(globals().items())
    if name.startswith("spec_")
}
