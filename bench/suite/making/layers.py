"""Operators and layers alone, in PyTorch: the exporters' opsets decide in which form they come."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Attend(nn.Module):
    """Softmax of scores, some of them masked."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.zeros(256).masked_fill(torch.arange(256) > 250, -1e4))

    def forward(self, x: Any) -> Any:
        """As many scores."""
        return torch.softmax(x / 8 + self.mask, -1)


class Normed(nn.Module):
    """Layer normalization of a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(768)

    def forward(self, x: Any) -> Any:
        """As many numbers."""
        return self.norm(x + F.relu(x))


class Gelu(nn.Module):
    """The exact gelu of a biased input."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(3072))

    def forward(self, x: Any) -> Any:
        """As many numbers."""
        return F.gelu(x + self.bias)


class Encoder(nn.Module):
    """Two encoder layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(384, 6) for _ in range(2))

    def forward(self, x: Any) -> Any:
        """(batch, time, 384)."""
        for layer in self.layers:
            x = layer(x)
        return x


class _Layer(nn.Module):
    """An encoder layer, norms behind sums, or before them with a causal mask."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))

    def attended(self, x: Any) -> Any:
        """Attention among the times."""
        q, k, v = (
            a.unflatten(-1, (self.heads, -1)).transpose(1, 2) for a in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x: Any) -> Any:
        """(batch, time, width)."""
        if self.causal:
            x = x + self.attended(self.norms[0](x))
            return x + self.down(F.gelu(self.up(self.norms[1](x))))
        x = self.norms[0](x + self.attended(x))
        return self.norms[1](x + self.down(F.gelu(self.up(x))))


class CausalBlock(_Layer):
    """A decoder's block over a whole prompt."""

    def __init__(self) -> None:
        super().__init__(512, 8, causal=True)


class ConvStack(nn.Module):
    """A plain network of convolutions and pools."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 32, 64, 128, 256)
        parts: list[nn.Module] = []
        for n, m in pairwise(widths):
            parts += [nn.Conv2d(n, m, 3, padding=1), nn.BatchNorm2d(m), nn.ReLU(), nn.MaxPool2d(2)]
        self.parts = nn.Sequential(*parts)
        self.head = nn.Linear(256, 100)

    def forward(self, x: Any) -> Any:
        """The logits (batch, 100)."""
        return self.head(self.parts(x).mean((2, 3)))
