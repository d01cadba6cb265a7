"""Times training steps of PyTorch's DDP and FSDP by gloo: `torch_steps.py MODEL RANKS [fsdp]`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F
from trained_models import CLASSES, HEADS, LAYERS, MODEL, WIDTH, batch

STEPS, REPEATS = 4, 15


class Layer(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(MODEL), nn.LayerNorm(MODEL)
        self.q, self.k, self.v, self.o = (nn.Linear(MODEL, MODEL) for _ in range(4))
        self.up, self.down = nn.Linear(MODEL, 4 * MODEL), nn.Linear(4 * MODEL, MODEL)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (batch, time, MODEL) after the layer."""
        n = self.n1(x)
        b, t, _ = x.shape
        q, k, v = (f(n).view(b, t, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(b, t, MODEL)
        )
        r = x + self.o(a)
        return r + self.down(F.gelu(self.up(self.n2(r))))


def model_and_loss(name: str) -> tuple[nn.Module, Any]:
    """The module of a model, and its loss."""
    if name == "mlp":
        module = nn.Sequential(
            nn.Linear(784, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(),
            nn.Linear(WIDTH, CLASSES),
        )
        return module, F.cross_entropy
    return nn.Sequential(*(Layer() for _ in range(LAYERS))), F.mse_loss


def run(rank: int, ranks: int, name: str, way: str) -> None:
    """One rank: steps of a model, on its part of the batch. Rank 0 prints the line."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    module, loss_of = model_and_loss(name)
    if ranks > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531"}
        dist.init_process_group("gloo", rank=rank, world_size=ranks)
        if way == "fsdp":
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            fully_shard(module, mesh=init_device_mesh("cpu", (ranks,)))
        else:
            module = nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    given = {n: torch.from_numpy(a) for n, a in batch(name).items()}
    rows = len(given["x"]) // ranks
    x, y = (given[n][rank * rows : (rank + 1) * rows] for n in "xy")

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(module(x), y)
        loss.backward()
        optimizer.step()
        return float(loss)

    for _ in range(3):
        loss = step()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        for _ in range(STEPS):
            loss = step()
        times.append((time.perf_counter() - began) / STEPS)
    times.sort()
    if rank == 0:
        label = f"torch {way}" if ranks > 1 else "torch"
        middle = times[len(times) // 2]
        print(f"{label},{name},{ranks},{times[0] * 1e3:.2f},{middle * 1e3:.2f},{loss:.5f}")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    name, ranks = sys.argv[1], int(sys.argv[2])
    way = sys.argv[3] if len(sys.argv) > 3 else "ddp"
    if ranks == 1:
        run(0, 1, name, way)
    else:
        mp.spawn(run, (ranks, name, way), ranks)
