"""The opencl backend beside cpu, with facts of a processor: calls in turn, the least of bursts.

    POCL_MAX_PTHREAD_COUNT=1 python bench/opencl/kernels.py

A ratio is cpu's time over opencl's: 1 is as fast, 0.5 takes twice as long.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import xlac

ROOT = Path(__file__).parents[2]
HEAD = "xlac: 1\nmodel: bench\nweights: {init: {seed: 0, scheme: kaiming}}\n"
SPECS = {
    "matmul 512": "inputs:\n  a: f32[512, 512]\n  b: f32[512, 512]\ngraph:\n  y: matmul(a, b)\n",
    "conv": "inputs:\n  x: f32[1, 64, 56, 56]\n"
    "graph:\n  y: {op: conv2d, in: x, filters: 64, kernel: 3, pad: 1}\n",
    "softmax": "inputs:\n  x: f32[1024, 1024]\ngraph:\n  y: softmax(x, axis=-1)\n",
    "layernorm": "inputs:\n  x: f32[1024, 768]\ngraph:\n  y: {op: layer_norm, in: x}\n",
    "bert_layer": "",
}
SHAPES = {
    "matmul 512": [(512, 512), (512, 512)],
    "conv": [(1, 64, 56, 56)],
    "softmax": [(1024, 1024)],
    "layernorm": [(1024, 768)],
    "bert_layer": [(1, 128, 768), (1, 1, 1, 128)],
}
BURSTS, SECONDS = 9, 0.15


def burst(call: Callable[[], Any]) -> float:
    """The least seconds of one call, of as many as fit a burst."""
    least, end = math.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least


def main(threads: int) -> None:
    """Prints a row for each workload, and the geometric mean of the ratios."""
    ratios = []
    for name, text in SPECS.items():
        with tempfile.TemporaryDirectory() as folder:
            spec = ROOT / "specs" / f"{name}.yaml"
            if text:
                spec = Path(folder) / "bench.yaml"
                spec.write_text(f"{HEAD}{text}outputs: [y]\n")
            ours = xlac.compile(str(spec), "opencl", arch="cpu")
            theirs = xlac.compile(str(spec), "cpu", threads=threads)
        rng = np.random.default_rng(0)
        given = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[name]]
        both = [partial(m, *given) for m in (ours, theirs)]
        times = [[burst(call) for call in both] for _ in range(BURSTS)]
        mine, peer = (min(column) for column in zip(*times, strict=True))
        ratios.append(peer / mine)
        print(f"| {name} | {mine * 1e3:.3f} | {peer * 1e3:.3f} | {ratios[-1]:.2f} |", flush=True)
    print(f"| geometric mean | | | {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} |")


if __name__ == "__main__":
    main(int(os.environ.get("POCL_MAX_PTHREAD_COUNT", "1")) if len(sys.argv) == 1 else 1)
