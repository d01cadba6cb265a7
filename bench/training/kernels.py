"""Gradient kernels beside the forward kernel, eager PyTorch and JAX, in interleaved bursts.

    python bench/training/kernels.py [ROW…] [--threads 1] [--seconds 1.5] [--out FILE.json]

A ROW names all rows that begin with it. Contenders take turns, a burst of calls each; a burst's
figure is its quickest call, a contender's the quickest burst. Ratios are medians over turns of the
burst's figure over its neighbour's, so that a busy machine weighs on both alike: on a shared one
they alone are to be trusted. Before it is timed every result is compared with PyTorch's.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

Burst = dict[str, float]
CONTENDERS = ("xlac", "forward", "torch", "torch_forward", "jax")


def quickest(call: Callable[[], Any], seconds: float) -> float:
    """Seconds of the quickest call of a burst of at least three."""
    best, stop, count = float("inf"), time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < stop:
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
        count += 1
    return best


def contenders(row: Any, threads: int, asked: set[str]) -> dict[str, Callable[[], Any]]:
    """The calls to be timed, by contender, after their results were compared."""
    import numpy as np

    import xlac

    arrays = row.arrays()
    contenders: dict[str, Callable[[], Any]] = {}
    forward = xlac.compile(row.forward(), threads=threads)
    given = [arrays[name] for name in forward.inputs]
    contenders["forward"] = lambda: forward(*given)
    y = np.asarray(forward(*given))
    contenders["torch_forward"] = row.torch_forward(arrays)
    wanted: Any = [contenders["torch_forward"]().numpy()]
    if not row.wrt:  # a calculation that gradients are made of: the row is itself
        contenders["xlac"], contenders["torch"] = (
            contenders.pop("forward"),
            contenders.pop("torch_forward"),
        )
        compared(row.name, [y], wanted)
        if "jax" in asked:
            import jax

            jitted = jax.jit(row.jax)
            moved = {n: jax.numpy.asarray(a) for n, a in arrays.items()}
            contenders["jax"] = lambda: jax.block_until_ready(jitted(**moved))  # type: ignore[no-untyped-call]
        return {name: call for name, call in contenders.items() if name in asked}
    rng = np.random.default_rng(1)
    ct = np.asarray(rng.standard_normal(y.shape), np.float32)
    backward = xlac.compile(row.backward(), threads=threads)
    values = [(arrays | {"ct": ct})[name] for name in backward.inputs]
    contenders["xlac"] = lambda: backward(*values)
    contenders["torch"] = row.torch_backward(arrays, ct)
    ours = contenders["xlac"]()
    compared(
        row.name, list(ours.values()) if isinstance(ours, dict) else [ours], contenders["torch"]()
    )
    if "jax" in asked:
        contenders["jax"] = row.jax_backward(arrays, ct)
    return {name: call for name, call in contenders.items() if name in asked}


def compared(name: str, ours: Any, theirs: Any) -> None:
    """Raises where results differ by more than sums of f32 in another order."""
    import numpy as np

    for a, b in zip(ours, theirs, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        gap = float(np.abs(a - b).max()) / (float(np.abs(b).max()) + 1e-30)
        if not gap < 1e-4:
            raise SystemExit(f"{name}: results differ from PyTorch's by {gap:.1e}")


def measured(calls: dict[str, Callable[[], Any]], seconds: float) -> list[Burst]:
    """A turn a list entry: the quickest call of each contender's burst."""
    for call in calls.values():
        call()
        call()
    turns: list[Burst] = []
    stop = time.perf_counter() + seconds * len(calls)
    while len(turns) < 5 or time.perf_counter() < stop:
        turns.append({name: quickest(call, 0.02) for name, call in calls.items()})
    return turns


def summary(row: Any, turns: list[Burst]) -> dict[str, Any]:
    """The figures of a row: best times, rates in 1e9 of operations, and ratios of bursts."""
    best = {name: min(turn[name] for turn in turns) for name in turns[0]}
    ratios = {
        name: median(turn["xlac"] / turn[name] for turn in turns)
        for name in turns[0]
        if name != "xlac"
    }
    return {
        "name": row.name,
        "kind": row.kind,
        "work": row.work,
        "best": best,
        "ratios": ratios,
        "spread": {n: median(t[n] for t in turns) / best[n] for n in best},
        "turns": len(turns),
    }


def table_row(row: dict[str, Any]) -> str:
    """A row of the table."""
    best, ratios, work = row["best"], row["ratios"], row["work"]

    def rate(name: str) -> str:
        return f"{work / best[name] / 1e9:.0f}" if work and name in best else ""

    def ratio(name: str) -> str:
        return f"{ratios[name]:.2f}" if name in ratios else ""

    cells = [
        row["name"],
        f"{best['xlac'] * 1e6:.0f}",
        rate("xlac"),
        rate("forward"),
        rate("torch"),
        rate("jax"),
        ratio("forward"),
        ratio("torch"),
        ratio("jax"),
        f"{row['spread']['xlac']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


COLUMNS = (
    *("row", "us", "GF/s", "forward's", "PyTorch's", "JAX's"),
    *("x forward", "x PyTorch", "x JAX", "median / best"),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def main() -> None:
    """Prints each gradient kernel beside the forward one and the peers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=[""], metavar="ROW")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each contender, each row")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(asked.threads)
    if asked.threads == 1:
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import torch
    from rows import rows

    torch.set_num_threads(asked.threads)
    print(HEAD, flush=True)
    records = []
    for row in rows():
        if not any(row.name.startswith(name) for name in asked.rows):
            continue
        calls = contenders(row, asked.threads, set(asked.contenders.split(",")) | {"xlac"})
        records.append(summary(row, measured(calls, asked.seconds)))
        print(table_row(records[-1]), flush=True)
    if asked.out:
        asked.out.write_text(json.dumps({"threads": asked.threads, "rows": records}, indent=1))


if __name__ == "__main__":
    main()
