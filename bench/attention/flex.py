"""flex_attention with a block mask beside the same mask as a function of scores, of which all are
computed, by torch.compile(backend="xlac").

    python bench/attention/flex.py [--length 2048] [--heads 8] [--threads 1]

Both take turns in bursts of 50 ms; the best of seven counts. RESULTS.md has the figures.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from bursts import best_bursts
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

MASKS: dict[str, Callable[..., Any]] = {
    "causal": lambda b, h, i, j: i >= j,
    "causal, 256 keys": lambda b, h, i, j: (i >= j) & (i - j < 256),
    "documents of 512": lambda b, h, i, j: i // 512 == j // 512,
    "all": lambda b, h, i, j: j >= 0,
}


def milliseconds(mask: Callable[..., Any], length: int, heads: int, threads: int) -> list[float]:
    """The time of a call with a block mask, and of one without."""
    block_mask = create_block_mask(mask, None, None, length, length, device="cpu")

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return torch.where(mask(b, h, i, j), s, -math.inf)

    q, k, v = (torch.randn(1, heads, length, 64) for _ in range(3))
    options = {"fallback": False, "threads": threads}
    calls = []
    for given in ({"block_mask": block_mask}, {"score_mod": score}):
        compiled = torch.compile(partial(flex_attention, **given), backend="xlac", options=options)
        compiled(q, k, v)
        calls.append(partial(compiled, q, k, v))
    torch.testing.assert_close(calls[0](), calls[1]())
    found = best_bursts(tuple(calls), bursts=7, seconds=0.05, clock=time.perf_counter)
    return [x * 1e3 for x in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("length", 2048), ("heads", 8), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    print("| mask | blocks | all scores | |\n|---|---|---|---|")
    for name, mask in MASKS.items():
        mine, dense = milliseconds(mask, options.length, options.heads, options.threads)
        print(f"| {name} | {mine:.1f} ms | {dense:.1f} ms | {dense / mine:.2f} |", flush=True)
