"""What networks.py asks of a framework, in PyTorch and in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Weights = Mapping[str, Any]


class Torch:
    """PyTorch's own layers."""

    def __init__(self) -> None:
        import torch
        import torch.nn.functional as F

        self.t, self.f = torch, F
        self.relu, self.relu6, self.gelu = F.relu, F.relu6, F.gelu
        self.sigmoid, self.tanh, self.concat = torch.sigmoid, torch.tanh, torch.cat

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Zeros of a shape."""
        return self.t.zeros(shape)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean loss of logits (batch, classes) for labels (batch)."""
        return self.f.cross_entropy(logits, labels.long())

    def linear(self, x: Any, w: Weights, path: str) -> Any:
        """x times the transposed weight at `path`, plus its bias if there is one."""
        return self.f.linear(x, w[f"{path}.weight"], w.get(f"{path}.bias"))

    def split(self, x: Any, parts: int) -> Any:
        """Equal parts along the last axis."""
        return x.chunk(parts, -1)

    def scan(self, cell: Callable[..., Any], carry: Any, x: Any) -> Any:
        """What `cell(carry, x_t)` gives for each step of x (batch, time, …), stacked along time."""
        results = []
        for x_t in x.unbind(1):
            carry, y = cell(carry, x_t)
            results.append(y)
        return self.t.stack(results, 1)

    def embedding(self, ids: Any, table: Any) -> Any:
        """Rows of a table."""
        return self.f.embedding(ids.long(), table)

    def conv(self, x: Any, w: Any, stride: int, pad: int, groups: int = 1) -> Any:
        """A convolution of NCHW maps, without bias."""
        return self.f.conv2d(x, w, None, stride, pad, 1, groups)

    def conv_transpose(self, x: Any, w: Any, stride: int) -> Any:
        """A transposed convolution of NCHW maps, without padding or bias."""
        return self.f.conv_transpose2d(x, w, None, stride)

    def batch_norm(self, x: Any, w: Weights, path: str) -> Any:
        """Batch normalization by the statistics of the batch, which updates those at `path`."""
        mean, variance = w[f"{path}.mean"], w[f"{path}.variance"]
        return self.f.batch_norm(x, mean, variance, w[f"{path}.weight"], w[f"{path}.bias"], True)

    def norm(self, x: Any, w: Weights, path: str) -> Any:
        """Layer normalization along the last axis."""
        return self.f.layer_norm(x, x.shape[-1:], w[f"{path}.weight"], w[f"{path}.bias"])

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        """Max pooling of NCHW maps."""
        return self.f.max_pool2d(x, kernel, stride, pad)

    def mean_of_map(self, x: Any) -> Any:
        """The mean of each channel's map."""
        return x.mean((2, 3))

    def attention(self, q: Any, k: Any, v: Any, heads: int, causal: bool) -> Any:
        """Attention of (batch, time, width) in `heads`; masked by time if `causal`."""
        q, k, v = (a.unflatten(-1, (heads, -1)).transpose(1, 2) for a in (q, k, v))
        weighted = self.f.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return weighted.transpose(1, 2).flatten(2)


class Jax:
    """JAX's own layers. Running statistics of batch_norm are kept in `measured`."""

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.j, self.np, self.lax = jax, jnp, jax.lax
        self.relu, self.relu6 = jax.nn.relu, jax.nn.relu6
        self.sigmoid, self.tanh = jax.nn.sigmoid, jnp.tanh
        self.concat, self.zeros = jnp.concatenate, jnp.zeros
        self.measured: dict[str, Any] = {}

    def gelu(self, x: Any) -> Any:
        """The exact gelu."""
        return self.j.nn.gelu(x, approximate=False)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean loss of logits (batch, classes) for labels (batch)."""
        logs = self.j.nn.log_softmax(logits)
        return -self.np.take_along_axis(logs, labels[:, None], 1).mean()

    def linear(self, x: Any, w: Weights, path: str) -> Any:
        """x times the transposed weight at `path`, plus its bias if there is one."""
        y = x @ w[f"{path}.weight"].T
        return y + w[f"{path}.bias"] if f"{path}.bias" in w else y

    def split(self, x: Any, parts: int) -> Any:
        """Equal parts along the last axis."""
        return self.np.split(x, parts, -1)

    def scan(self, cell: Callable[..., Any], carry: Any, x: Any) -> Any:
        """What `cell(carry, x_t)` gives for each step of x (batch, time, …), stacked along time."""
        return self.lax.scan(cell, carry, x.swapaxes(0, 1))[1].swapaxes(0, 1)

    def embedding(self, ids: Any, table: Any) -> Any:
        """Rows of a table."""
        return table[ids]

    def conv(self, x: Any, w: Any, stride: int, pad: int, groups: int = 1) -> Any:
        """A convolution of NCHW maps, without bias."""
        return self.lax.conv_general_dilated(
            x, w, (stride,) * 2, ((pad, pad),) * 2, feature_group_count=groups
        )

    def conv_transpose(self, x: Any, w: Any, stride: int) -> Any:
        """A transposed convolution of NCHW maps, without padding or bias."""
        pad = w.shape[-1] - 1
        flipped = self.np.flip(w, (2, 3)).swapaxes(0, 1)
        return self.lax.conv_general_dilated(
            x, flipped, (1, 1), ((pad, pad),) * 2, lhs_dilation=(stride,) * 2
        )

    def batch_norm(self, x: Any, w: Weights, path: str) -> Any:
        """Batch normalization by the statistics of the batch; keeps the running ones."""
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        count = x.size // x.shape[1]
        wide = variance * (count / max(count - 1, 1))
        for name, statistic in (("mean", mean), ("variance", wide)):
            old = w[f"{path}.{name}"]
            self.measured[f"{path}.{name}"] = self.lax.stop_gradient(0.9 * old + 0.1 * statistic)
        factor = w[f"{path}.weight"] * self.lax.rsqrt(variance + 1e-5)
        shift = w[f"{path}.bias"] - mean * factor
        return x * factor[:, None, None] + shift[:, None, None]

    def norm(self, x: Any, w: Weights, path: str) -> Any:
        """Layer normalization along the last axis."""
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * self.lax.rsqrt(variance + 1e-5) * w[f"{path}.weight"] + w[
            f"{path}.bias"
        ]

    def max_pool(self, x: Any, kernel: int, stride: int, pad: int) -> Any:
        """Max pooling of NCHW maps."""
        return self.lax.reduce_window(
            x, -self.np.inf, self.lax.max, (1, 1, kernel, kernel), (1, 1, stride, stride),
            ((0, 0), (0, 0), (pad, pad), (pad, pad)),
        )  # fmt: skip

    def mean_of_map(self, x: Any) -> Any:
        """The mean of each channel's map."""
        return x.mean((2, 3))

    def attention(self, q: Any, k: Any, v: Any, heads: int, causal: bool) -> Any:
        """Attention of (batch, time, width) in `heads`; masked by time if `causal`."""
        q, k, v = (a.reshape(*a.shape[:2], heads, -1) for a in (q, k, v))
        weighted = self.j.nn.dot_product_attention(q, k, v, is_causal=causal)
        return weighted.reshape(*weighted.shape[:2], -1)
