"""What open sizes cost: programs for every size, and those with a variant, against programs for
one, at the sizes to optimise for.

    python bench/symbolic.py [SPEC …] [--seconds 2] > bench/SYMBOLIC.md

Calls of them take turns and the fastest of each counts, in CPU time of the thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xlac import api, driver
from xlac.frontends.loader import load

HERE = Path(__file__).parent
SPECS = HERE.parent / "specs", HERE / "specs"
# and how its sizes are narrowed: opt is then the nearest
SUITE: tuple[tuple[str, dict[str, str]], ...] = (
    ("bert_layer", {}), ("gpt2_decode", {}), ("digits", {}), ("lstm_3x60", {}),
    ("mlp_small_batch", {}), ("mlp_small_batch", {"batch": "16.."}), ("tagger_batch", {}),
    ("tagger_batch", {"batch": "16.."}),
)  # fmt: skip


def arrays(fixed: Any) -> dict[str, np.ndarray]:
    """Random inputs of a model whose sizes are known, by name."""
    generator = np.random.default_rng(0)
    arrays = {}
    for node in fixed.inputs:
        dtype = node.type.dtype
        drawn = (
            generator.standard_normal(node.shape)
            if dtype.is_float
            else generator.integers(0, 2, node.shape)
        )
        arrays[node.op.name] = np.asarray(drawn).astype(dtype.numpy)
    return arrays


def fastest(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    """Seconds of the fastest turn of each; a turn is as many calls as take a few milliseconds."""
    counts = []
    for call in calls:
        call()
        start = time.thread_time()
        call()
        counts.append(max(1, int(0.005 / max(1e-7, time.thread_time() - start))))
    best = [float("inf")] * len(calls)
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for i, call in enumerate(calls):
            start = time.thread_time()
            for _ in range(counts[i]):
                call()
            best[i] = min(best[i], (time.thread_time() - start) / counts[i])
    return best


def measure(name: str, dims: dict[str, str], seconds: float) -> str:
    """A row of the table: a spec's program for every size beside the one for its own."""
    model = load(
        next(folder / f"{name}.yaml" for folder in SPECS if (folder / f"{name}.yaml").exists()),
        dims=dims,
    )
    sizes = {n: s.opt for n, s in model.dims.items()}
    fixed = driver.specialized(model, sizes)
    inputs = arrays(fixed)
    static = api.compile(fixed)
    symbolic = api.compile(model, sizes="symbolic")
    variant = api.compile(model, sizes="symbolic", variants=[sizes])
    given = tuple(inputs[name] for name in static.inputs)
    a, b, c = fastest(
        [lambda: static(*given), lambda: symbolic(*given), lambda: variant(*given)], seconds
    )
    at = ", ".join(f"{n} = {v}" for n, v in sizes.items())
    return f"| {name} | {at} | {a * 1e6:,.2f} | {b * 1e6:,.2f} | {b / a:.3f} | {c / a:.3f} |"


def main() -> None:
    """Prints a row for each spec."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="*")
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    print("# What open sizes cost\n")
    print(
        "One thread; microseconds of CPU time a call, the fastest of many, the programs taking "
        "turns. A program with a variant for"
    )
    print(
        "these sizes has code of its own for them beside the code for any: what is left is finding "
        "the sizes and choosing."
    )
    print("Made by `python bench/symbolic.py`.\n")
    print(
        "| spec | sizes | static | symbolic | ratio | ratio with a variant "
        "|\n|---|---|---:|---:|---:|---:|"
    )
    for name, dims in SUITE:
        if not given.specs or name in given.specs:
            print(measure(name, dims, given.seconds), flush=True)


if __name__ == "__main__":
    main()
