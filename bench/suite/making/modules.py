"""Models that no library has ready, as a user of PyTorch writes them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Recommender(nn.Module):
    """DLRM: dense features (batch, 13) and ids (batch, 8), embeddings and their products."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10000, 64)
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(64 + 81, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, dense: Any, ids: Any) -> Any:
        """The logits (batch, 1)."""
        d = self.bottom(dense)
        both = torch.cat([d[:, None], self.table(ids)], 1)
        return self.top(torch.cat([d, torch.bmm(both, both.transpose(1, 2)).flatten(1)], 1))


class Mixer(nn.Module):
    """An MLP-mixer of 224 by 224 pixels."""

    def __init__(self, tokens: int = 196, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        mlp = lambda n, m: nn.Sequential(nn.Linear(n, m), nn.GELU(), nn.Linear(m, n))
        norms = (nn.LayerNorm(width) for _ in range(2 * layers))
        self.norms = nn.ModuleList(norms)
        self.tokens = nn.ModuleList(mlp(tokens, 512) for _ in range(layers))
        self.channels = nn.ModuleList(mlp(width, 1024) for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        """The logits (batch, 1000)."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        for i, (tokens, channels) in enumerate(zip(self.tokens, self.channels, strict=True)):
            x = x + tokens(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(self.norms[2 * i + 1](x))
        return self.head(x.mean(1))


class PointNet(nn.Module):
    """A classifier of points (batch, 3, points)."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(
            *(nn.Conv1d(3, 64, 1), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 128, 1)),
            *(nn.BatchNorm1d(128), nn.ReLU(), nn.Conv1d(128, 1024, 1), nn.BatchNorm1d(1024)),
        )
        self.head = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x: Any) -> Any:
        """The logits (batch, 40)."""
        return self.head(self.each(x).amax(2))


def _convolved(inside: int, outside: int) -> nn.Sequential:
    parts = (nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())
    return nn.Sequential(*parts, nn.Conv2d(outside, outside, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    """A U-Net of three levels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        w = width
        self.down = nn.ModuleList(
            [_convolved(3, w), _convolved(w, 2 * w), _convolved(2 * w, 4 * w)]
        )
        self.wider = nn.ModuleList(
            [nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), nn.ConvTranspose2d(2 * w, w, 2, 2)]
        )
        self.up = nn.ModuleList([_convolved(4 * w, 2 * w), _convolved(2 * w, w)])
        self.head = nn.Conv2d(w, 4, 1)

    def forward(self, x: Any) -> Any:
        """The logits (batch, 4, height, width)."""
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        y = self.down[2](F.max_pool2d(b, 2))
        y = self.up[0](torch.cat([self.wider[0](y), b], 1))
        return self.head(self.up[1](torch.cat([self.wider[1](y), a], 1)))


class Decoder(nn.Module):
    """A VAE's decoder: 64 by 64 pixels of 128 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(128, 256 * 64)
        widths = (256, 128, 64, 32)
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.ConvTranspose2d(n, m, 4, 2, 1), nn.ReLU(), nn.Conv2d(m, m, 3, padding=1)
            )
            for n, m in pairwise(widths)
        )
        self.head = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, z: Any) -> Any:
        """The image (batch, 3, 64, 64)."""
        x = self.first(z).unflatten(1, (256, 8, 8))
        for stage in self.stages:
            x = F.silu(stage(x))
        return torch.sigmoid(self.head(x))


class WaveNet(nn.Module):
    """Dilated convolutions with gates over time (batch, 64, time)."""

    def __init__(self, width: int = 64, layers: int = 8) -> None:
        super().__init__()
        self.gates = nn.ModuleList(
            nn.Conv1d(width, 2 * width, 3, padding=2**i, dilation=2**i) for i in range(layers)
        )
        self.mixed = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))

    def forward(self, x: Any) -> Any:
        """As many channels and times as there were."""
        skipped = torch.zeros_like(x)
        for gates, mixed in zip(self.gates, self.mixed, strict=True):
            a, b = gates(x).chunk(2, 1)
            y = mixed(torch.tanh(a) * torch.sigmoid(b))
            x, skipped = x + y, skipped + y
        return F.relu(skipped)


class GruEncoder(nn.Module):
    """Two layers of GRU over time (batch, time, 128)."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(128, 256, 2, batch_first=True)
        self.head = nn.Linear(256, 64)

    def forward(self, x: Any) -> Any:
        """(batch, time, 64)."""
        return self.head(self.rnn(x)[0])


class LstmTagger(nn.Module):
    """A bidirectional LSTM over embedded ids (batch, time)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2000, 128)
        self.rnn = nn.LSTM(128, 192, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(384, 50)

    def forward(self, ids: Any) -> Any:
        """The logits (batch, time, 50)."""
        return self.head(self.rnn(self.table(ids))[0])


class LstmLanguage(nn.Module):
    """A language model of one LSTM (batch, time)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(2000, 256)
        self.rnn = nn.LSTM(256, 512, 1, batch_first=True)
        self.head = nn.Linear(512, 2000)

    def forward(self, ids: Any) -> Any:
        """The logits (batch, time, 2000)."""
        return self.head(self.rnn(self.table(ids))[0])


class ConvolvedRnn(nn.Module):
    """Convolutions of a spectrogram, then a GRU: DeepSpeech's shape."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(1, 32, (5, 5), (2, 2), (2, 2)), nn.Hardtanh(0, 20))
        self.rnn = nn.GRU(32 * 32, 256, 1, batch_first=True)
        self.head = nn.Linear(256, 29)

    def forward(self, x: Any) -> Any:
        """The logits (batch, time, 29)."""
        y = self.convs(x)
        return self.head(self.rnn(y.flatten(1, 2).transpose(1, 2))[0])
