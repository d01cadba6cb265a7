"""What a call costs the host, in microseconds: `python bench/gpu/host.py`, with `--gpu` on this
machine's GPU.

Without a GPU the driver is the tests' stand-in, which then runs nothing: what is measured is xlac's
own part and the stand-in's (half a microsecond). Operands are PyTorch's tensors, with `--gpu` on
the GPU and else, as PyTorch has no others there, in the host's memory: to ask them for address,
shape and type costs the same.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import xlac
from xlac import driver as compiler
from xlac.frontends import loader
from xlac_cuda.device import arrays, driver
from xlac_cuda.device import open as devices
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.run import calls, executable
from xlac_sdk.target import Request

TESTS = Path(__file__).resolve().parents[2] / "tests" / "cuda"
CALLS, ROUNDS = 4000, 9
SPEC = """xlac: 1
model: small
inputs:
  x: f32[64, 64]
  z: f32[64, 64]
graph:
  y: softmax(x + z)
  w: relu(x * z)
outputs: [{outputs}]
"""


def stand_in() -> Any:
    """The tests' driver as this machine's, and tensors of the host as ones of its GPU. Gives the
    backend for it.
    """
    os.environ |= {"STANDIN_IDLE": "1", "XLAC_CACHE": "off"}
    sys.path.insert(0, str(TESTS))
    from cuda_harness import STANDIN, OnStandin

    driver.LIBRARY = str(STANDIN.driver)
    devices._opened = Gpu
    devices.gpu().index = -1  # what tensors of the host say they are on
    torch._C._cuda_getCurrentRawStream = {-1: 0}.__getitem__
    ours, theirs = arrays.is_on_gpu, arrays.given
    calls.is_on_gpu = executable.is_on_gpu = lambda value: (
        isinstance(value, torch.Tensor) or ours(value)
    )
    calls.given = lambda value, stream: (
        arrays._torch(value) if isinstance(value, torch.Tensor) else theirs(value, stream)
    )
    return OnStandin()


def measured(call: Callable[[], Any], sync: Callable[[], Any]) -> float:
    """The least of some rounds: processor time where nothing is waited for."""
    rounds = []
    for _ in range(ROUNDS):
        call()
        sync()
        start = time.thread_time()
        for _ in range(CALLS):
            call()
        rounds.append((time.thread_time() - start) / CALLS)
        sync()
    return min(rounds) * 1e6


def compiled(outputs: str, backend: Any) -> Any:
    """The spec with some of its outputs, ready to be called."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "small.yaml")
        file.write_text(SPEC.format(outputs=outputs))
        if backend is None:
            return xlac.compile(file, target="cuda")
        return compiler.executable(
            compiler.lower(loader.load(file), backend.target(Request())), backend
        )


def main() -> None:
    """Prints what a call costs the host, for each kind of call."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", action="store_true", help="on this machine's GPU")
    on_gpu = parser.parse_args().gpu
    backend = None if on_gpu else stand_in()
    place, sync = ("cuda", torch.cuda.synchronize) if on_gpu else ("cpu", lambda: None)
    room = torch.randn(14, 64 * 64 + 16, device=place)
    tensors = [row[-row.data_ptr() // 4 % 4 :][: 64 * 64].view(64, 64) for row in room]
    one, two = compiled("y", backend), compiled("y, w", backend)
    x, z, y, w = tensors[:4]
    device = one(x, z)
    host = [np.zeros((64, 64), np.float32)] * 2
    turns = itertools.cycle(itertools.pairwise(tensors))
    for name, call in {
        "2 tensors in, 1 result": lambda: one(x, z),
        "2 tensors in, 2 results": lambda: two(x, z),
        "by name": lambda: one(x=x, z=z),
        "2 tensors in, into 1": lambda: one.run({"x": x, "z": z}, {"y": y}),
        "2 tensors in, into 2": lambda: two.run({"x": x, "z": z}, {"y": y, "w": w}),
        "results as operands": lambda: one(device, device),
        "13 places in turn": lambda: one(*next(turns)),
        "NumPy's arrays in and out": lambda: one(*host),
    }.items():
        print(f"{name:28}{measured(call, sync):8.1f}")


if __name__ == "__main__":
    main()
