"""Small loops and short reductions beside JAX, on one thread:
`python bench/loops/run.py [case …] [--bursts 9]`.

Contenders run in turn, a burst of a few milliseconds each; a figure is CPU time of a call in the
best burst. "Program" is ours without the pytrees of `from_jax`; "calls" is the ratio of whole
calls, "loops alone" that of our program and JAX's call, each less what one of a function that does
nothing costs. Results are compared with JAX's first.
`RESULTS.md` has the recorded table.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import numpy as np
from bursts import best_bursts
from cases import CASES, Case, draw
from jax import numpy as jnp

import xlac


class Times(NamedTuple):
    """Seconds of CPU of a call (of our program alone, too), and of compiling."""

    ours: float
    program: float
    theirs: float
    made: float
    made_theirs: float


def measured(case: Case, bursts: int, target: str) -> Times:
    """What a case costs, ours and JAX's."""
    function, given = case
    placed = jax.tree.map(jnp.asarray, given)
    start = time.process_time()
    compiled = jax.jit(function).lower(*placed).compile()
    theirs = time.process_time() - start
    start = time.process_time()
    ours = xlac.from_jax(function, *given, threads=1, target=target)
    own = time.process_time() - start
    wanted, got = (jax.tree.leaves(value) for value in (compiled(*placed), ours(*given)))
    for a, b in zip(got, wanted, strict=True):
        b = np.asarray(b)
        scale = float(np.abs(b).max(initial=1.0))
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-3, atol=1e-4 * scale)
    leaves = jax.tree.leaves(given)
    inputs = ours.lowered.inputs(leaves, [str(n) for n in range(len(leaves))])
    runs: tuple[Callable[[], Any], ...] = (
        lambda: ours(*given),
        lambda: ours.program(*inputs),
        lambda: jax.block_until_ready(compiled(*placed)),
    )
    return Times(*best_bursts(runs, bursts), own, theirs)


def main() -> None:
    """Prints a row a case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--bursts", type=int, default=9)
    parser.add_argument("--target", default="cpu")
    asked = parser.parse_args()
    idle = measured((lambda x: x + 1, (draw(8),)), asked.bursts, asked.target)
    print(
        f"a call of nothing: {idle.ours * 1e6:.1f} us, {idle.program * 1e6:.1f} of it the program; "
        f"JAX {idle.theirs * 1e6:.1f}\n"
    )
    print("| case | call | program | JAX, us | calls | loops alone | compile, s | JAX's, s |")
    print("|---" * 8 + "|")
    for name, case in CASES.items():
        if asked.cases and not any(part in name for part in asked.cases):
            continue
        t = measured(case, asked.bursts, asked.target)
        alone = (t.program - idle.program) / max(1e-9, t.theirs - idle.theirs)
        print(
            f"| {name} | {t.ours * 1e6:.1f} | {t.program * 1e6:.1f} | {t.theirs * 1e6:.1f} "
            f"| {t.ours / t.theirs:.2f} | {alone:.2f} | {t.made:.2f} | {t.made_theirs:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
