"""The networks of models/, as a user of PyTorch or JAX writes them: functions of their weights.

Both share one definition: `ops` has a framework's layers (frameworks.py), arrays index, add
and multiply alike in both, and weights have the names of xlac's specs. Each gives the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Weights = Mapping[str, Any]


def digits(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss of a classifier with one hidden layer."""
    return ops.cross_entropy(ops.linear(ops.relu(ops.linear(x, w, "h1")), w, "out"), y)


def mlp(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss of a classifier with two hidden layers."""
    for name in ("h1", "h2"):
        x = ops.relu(ops.linear(x, w, name))
    return ops.cross_entropy(ops.linear(x, w, "out"), y)


def lstm(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The mean square error of an LSTM's results along time."""

    def cell(carry: Any, x_t: Any) -> Any:
        h, c = carry
        gates = ops.linear(x_t, w, "rnn.gx") + ops.linear(h, w, "rnn.gh")
        i, f, g, o = ops.split(gates, 4)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
        return (h, c), h

    zero = ops.zeros((16, 256))
    outputs = ops.linear(ops.scan(cell, (zero, zero), x), w, "out")
    return ((outputs - y) ** 2).mean()


def dlrm(ops: Any, w: Weights, dense: Any, ids: Any, y: Any) -> Any:
    """The square error of a recommendation model: dense features, embeddings, their products."""
    d = ops.relu(ops.linear(ops.relu(ops.linear(dense, w, "d1")), w, "d2"))
    both = ops.concat([d[:, None], ops.embedding(ids, w["table.weight"])], 1)
    pairs = both @ both.swapaxes(1, 2)
    flat = ops.concat([d, pairs.reshape(128, 81)], 1)
    logit = ops.linear(ops.relu(ops.linear(flat, w, "t1")), w, "out")
    return ((ops.sigmoid(logit) - y) ** 2).mean()


def resnet18_cifar(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss of ResNet-18 for 32x32 images."""

    def unit(x: Any, path: str, at: str, stride: int = 1, pad: int = 1) -> Any:
        return ops.batch_norm(ops.conv(x, w[f"{path}c{at}.weight"], stride, pad), w, f"{path}n{at}")

    x = ops.relu(unit(x, "", "0"))
    for stage in range(1, 5):
        for number in range(2):
            path, stride = f"s{stage}.{number}.", 2 if stage > 1 and not number else 1
            h = unit(ops.relu(unit(x, path, "1", stride)), path, "2")
            x = ops.relu(h + (unit(x, path, "s", stride, 0) if stride > 1 else x))
    return ops.cross_entropy(ops.linear(ops.mean_of_map(x), w, "out"), y)


def resnet50(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss of ResNet-50."""

    def unit(x: Any, path: str, at: str, stride: int = 1, pad: int = 0) -> Any:
        return ops.batch_norm(ops.conv(x, w[f"{path}c{at}.weight"], stride, pad), w, f"{path}n{at}")

    x = ops.max_pool(ops.relu(unit(x, "", "0", 2, 3)), 3, 2, 1)
    for stage, repeat in enumerate((3, 4, 6, 3), 1):
        for number in range(repeat):
            path, stride = f"s{stage}.{number}.", 2 if stage > 1 and not number else 1
            h = ops.relu(unit(x, path, "1"))
            h = unit(ops.relu(unit(h, path, "2", stride, 1)), path, "3")
            x = ops.relu(h + (unit(x, path, "s", stride) if not number else x))
    return ops.cross_entropy(ops.linear(ops.mean_of_map(x), w, "out"), y)


def mobilenet_v2(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss of MobileNetV2."""

    def unit(
        x: Any, path: str, k: int = 1, stride: int = 1, groups: int = 1, act: bool = True
    ) -> Any:
        y = ops.conv(x, w[f"{path}.c.weight"], stride, k // 2, groups)
        y = ops.batch_norm(y, w, f"{path}.n")
        return ops.relu6(y) if act else y

    def inverted(x: Any, path: str, wide: int, stride: int = 1, add: bool = True) -> Any:
        h = unit(unit(x, f"{path}.a"), f"{path}.b", 3, stride, wide)
        h = unit(h, f"{path}.c", act=False)
        return h + x if add else h

    x = unit(unit(x, "stem", 3, 2), "f0", 3, 1, 32)
    x = unit(x, "p0", act=False)
    blocks = [
        ("b1", 96, 2, 0), ("b2", 144, 1, 1), ("b3", 144, 2, 0), ("b4", 192, 1, 2),
        ("b6", 192, 2, 0), ("b7", 384, 1, 3), ("b10", 384, 1, 0), ("b11", 576, 1, 2),
        ("b13", 576, 2, 0), ("b14", 960, 1, 2), ("b16", 960, 1, 0),
    ]  # fmt: skip
    for path, wide, stride, repeat in blocks:
        if repeat > 1:
            for number in range(repeat):
                x = inverted(x, f"{path}.{number}", wide)
        else:
            x = inverted(x, path, wide, stride, bool(repeat))
    x = unit(x, "head")
    return ops.cross_entropy(ops.linear(ops.mean_of_map(x), w, "out"), y)


def bert_layer(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss on top of one encoder layer of BERT."""
    parts = [ops.linear(x, w, name) for name in "qkv"]
    x = ops.norm(x + ops.linear(ops.attention(*parts, 12, False), w, "o"), w, "n1")
    x = ops.norm(x + ops.linear(ops.gelu(ops.linear(x, w, "up")), w, "down"), w, "n2")
    return ((x - y) ** 2).mean()


def gpt_small(ops: Any, w: Weights, ids: Any, y: Any) -> Any:
    """The loss of a decoder on the next tokens."""
    x = ops.embedding(ids, w["token"]) + w["place"]
    for number in range(sum(name.endswith("n1.weight") for name in w)):
        path = f"blocks.{number}"
        n1 = ops.norm(x, w, f"{path}.n1")
        parts = [ops.linear(n1, w, f"{path}.{name}") for name in "qkv"]
        x = x + ops.linear(ops.attention(*parts, 12, True), w, f"{path}.o")
        up = ops.linear(ops.norm(x, w, f"{path}.n2"), w, f"{path}.up")
        x = x + ops.linear(ops.gelu(up), w, f"{path}.down")
    out = ops.norm(x, w, "end") @ w["token"].T
    return ops.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))


def unet(ops: Any, w: Weights, x: Any, y: Any) -> Any:
    """The loss of a U-Net, pixel by pixel."""

    def pair(x: Any, path: str) -> Any:
        for name in ("c1", "c2"):
            at = f"{path}.{name}"
            x = ops.relu(ops.conv(x, w[f"{at}.weight"], 1, 1) + w[f"{at}.bias"][:, None, None])
        return x

    def up(x: Any, path: str) -> Any:
        return ops.conv_transpose(x, w[f"{path}.weight"], 2) + w[f"{path}.bias"][:, None, None]

    d1 = pair(x, "d1")
    d2 = pair(ops.max_pool(d1, 2, 2, 0), "d2")
    d3 = pair(ops.max_pool(d2, 2, 2, 0), "d3")
    u2 = pair(ops.concat([up(d3, "t2"), d2], 1), "u2")
    u1 = pair(ops.concat([up(u2, "t1"), d1], 1), "u1")
    logits = ops.conv(u1, w["out.weight"], 1, 0) + w["out.bias"][:, None, None]
    return ((logits - y) ** 2).mean()


NETWORKS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        digits,
        mlp,
        lstm,
        dlrm,
        resnet18_cifar,
        resnet50,
        mobilenet_v2,
        bert_layer,
        gpt_small,
        unet,
    )
}
