"""Data that is concatenated, padded, rolled or interleaved, beside JAX and eager PyTorch on one
thread: `python bench/seams.py [case …] [--bursts 9]`.

Contenders run in turn, a burst of a few milliseconds each; a figure is CPU time of a call in the
best burst. Results are compared with JAX's first. `SEAMS.md` has the recorded table.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import numpy as np
import torch
from bursts import best_bursts
from jax import numpy as jnp
from torch.nn.functional import pad

import xlac

Function = Callable[..., Any]


def draw(*shape: int) -> Any:
    """Normal numbers, the same each time."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def rotated(x: Any, cos: Any, sin: Any, half: int, join: Function) -> Any:
    """Rotary embeddings, halves rotated."""
    return x * cos + join([-x[..., half:], x[..., :half]], -1) * sin


def paired(x: Any, cos: Any, sin: Any, stack: Function) -> Any:
    """Rotary embeddings, pairs rotated."""
    a, b = x[..., ::2], x[..., 1::2]
    return stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def stencil(p: Any, u: Any) -> Any:
    """Five points, of a grid and the same with a border."""
    return p[1:-1, 2:] + p[1:-1, :-2] + p[2:, 1:-1] + p[:-2, 1:-1] - 4 * u


def wave(u: Any, v: Any, roll: Function) -> Any:
    """A step of a wave in a torus."""
    bent = roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u
    v = v + 0.1 * bent
    return u + 0.1 * v, v


def life(board: Any, roll: Function) -> Any:
    """A step of the game of life in a torus."""
    steps = [(i, k) for i in (-1, 0, 1) for k in (-1, 0, 1) if i or k]
    near = sum(roll(board, step, (0, 1)) for step in steps)
    return 1 * ((near == 3) | ((board == 1) & (near == 2)))


ROPE = draw(8, 256, 16, 64), draw(256, 1, 64), draw(256, 1, 64)
ROPE80 = draw(8, 256, 16, 80), draw(256, 1, 80), draw(256, 1, 80)
PAIRS = ROPE[0], draw(256, 1, 32), draw(256, 1, 32)
HALVES = draw(1024, 512), draw(1024, 512)
GRID = draw(1024, 1024)
PLANE = draw(512, 512)

# name: the function for JAX and xlac, for PyTorch, and what it is given
CASES: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "rope": (
        lambda *a: rotated(*a, 32, jnp.concatenate), lambda *a: rotated(*a, 32, torch.cat), ROPE
    ),
    "rope of 80": (
        lambda *a: rotated(*a, 40, jnp.concatenate), lambda *a: rotated(*a, 40, torch.cat), ROPE80
    ),
    "rope by pairs": (
        lambda *a: paired(*a, jnp.stack), lambda *a: paired(*a, torch.stack), PAIRS
    ),
    "concat, relu": (
        lambda *a: jax.nn.relu(jnp.concatenate(a, -1)), lambda *a: torch.relu(torch.cat(a, -1)),
        (draw(1024, 500), draw(1024, 300)),
    ),
    "stencil, wrapped": (
        lambda u: stencil(jnp.pad(u, 1, mode="wrap"), u),
        lambda u: stencil(pad(u[None], (1, 1, 1, 1), mode="circular")[0], u), (GRID,),
    ),
    "stencil, zeros": (
        lambda u: stencil(jnp.pad(u, 1), u), lambda u: stencil(pad(u, (1, 1, 1, 1)), u), (GRID,)
    ),
    "waves by roll": (
        lambda *a: wave(*a, jnp.roll), lambda *a: wave(*a, torch.roll), (PLANE, PLANE)
    ),
    "game of life": (
        lambda b: life(b, jnp.roll), lambda b: life(b, torch.roll), ((PLANE > 0).astype(np.int32),)
    ),
    "stack": (lambda *a: jnp.stack(a, -1), lambda *a: torch.stack(a, -1), HALVES),
    "interleave": (
        lambda *a: jnp.stack(a, -1).reshape(1024, -1) * 2,
        lambda *a: torch.stack(a, -1).reshape(1024, -1) * 2, HALVES,
    ),
    "complex": (lambda x: x * x + 1j * x, lambda x: x * x + 1j * x, (PLANE + 1j * PLANE,)),
    "roll by one": (
        lambda x: jnp.roll(x, 1, -1) * 2 + 1, lambda x: torch.roll(x, 1, -1) * 2 + 1, (GRID,)
    ),
}  # fmt: skip


def measured(name: str, bursts: int) -> dict[str, float]:
    """Seconds of CPU of a call, by contender."""
    function, eager, given = CASES[name]
    compiled, ours = jax.jit(function), xlac.from_jax(function, *given, threads=1)
    placed, tensors = [jnp.asarray(x) for x in given], [torch.from_numpy(x) for x in given]
    wanted, got = (jax.tree.leaves(value) for value in (compiled(*placed), ours(*given)))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5)
    runs: dict[str, Callable[[], Any]] = {
        "xlac": lambda: ours(*given),
        "jax": lambda: jax.block_until_ready(compiled(*placed)),
        "eager": lambda: eager(*tensors),
    }
    return dict(zip(runs, best_bursts(list(runs.values()), bursts), strict=True))


def main() -> None:
    """Prints a row a case."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--bursts", type=int, default=9)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| case | xlac, us | JAX, us | xlac / JAX | xlac / eager |\n|---|---|---|---|---|")
    for name in asked.cases or CASES:
        t = measured(name, asked.bursts)
        print(
            f"| {name} | {t['xlac'] * 1e6:.0f} | {t['jax'] * 1e6:.0f} | {t['xlac'] / t['jax']:.2f} "
            f"| {t['xlac'] / t['eager']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
