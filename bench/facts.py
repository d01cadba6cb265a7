"""How good choices by facts are: products by the facts of this machine, beside those by facts that
force another choice. `python bench/facts.py [SECONDS]` prints a row for each product: the time of
every different program, as a multiple of the fastest one's; `… SECONDS wrong` by wrong facts.
Below are the rank correlations of the times that the compiler's model predicts with the measured.

A time is the least of many bursts, interleaved; SECONDS (5) go into each product.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, gcd, log
from typing import Any

import numpy as np

from xlac.codegen.cpu.gemm import register_tile
from xlac.codegen.schedules.gemm import GemmSchedule
from xlac.driver import Lowered, executable, lower
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac.support.measured_facts import kept
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.machine_facts import PACKED
from xlac_sdk.target import Request, Target

BACKEND = find("cpu")
APART = 0.05  # times of programs that are at least so far apart are compared
GENERIC = {"apart_penalty": 0.0625, "prefetch_tiles": 4}
CHOICES: dict[str, dict[str, Any]] = {
    "shipped": {},
    "measured": dict(kept()),
    "generic": GENERIC,
    "packed": {"apart_penalty": 1000, "stride_penalty": 1000},
    "in place": {"apart_penalty": 0.001, "stride_penalty": 0.001},
    "ahead from 1": {"prefetch_tiles": 1},
    "ahead from 3": {"prefetch_tiles": 3},
    "never ahead": {"prefetch_tiles": 64},
}
SQUARES = (64, 96, 120, 128, 136, 160, 192, 200, 224, 250, 256, 384)
OTHERS = (
    (48, 128, 128), (96, 128, 128), (24, 128, 128), (128, 300, 64), (128, 64, 300), (256, 100, 100),
    (512, 96, 96), (64, 512, 512), (256, 1024, 256), (100, 300, 700), (24, 512, 384),
    (32, 256, 384), (32, 1024, 1000), (60, 768, 120),
)  # fmt: skip
CONSTANT = (
    (2, 768, 1024), (4, 768, 1024), (8, 768, 1024), (12, 768, 1024), (8, 768, 3072),
    (16, 768, 3072), (32, 768, 3072), (16, 3072, 768),
)  # fmt: skip


def product(rows: int, depth: int, columns: int, kind: str) -> tuple[Model, list[Any]]:
    """The product of random matrices, and what to call it with; a `weight` is constant."""
    x, w = (
        Node.of(Param(name, Type(DType.F32, shape), role))
        for name, shape, role in (("x", (rows, depth), "input"), ("w", (depth, columns), kind))
    )
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(n.shape).astype(np.float32) for n in (x, w)]
    y = build.apply1("matmul", x, w)
    if kind == "weight":
        return Model(Graph("product", (x,), {"y": y}), {"w": given[1]}), given[:1]
    return Model(Graph("product", (x, w), {"y": y}), {}), given


def programs(
    model: Model, shape: tuple[int, int, int]
) -> tuple[dict[str, str], dict[str, Callable[..., Any]], dict[str, float]]:
    """By choice, the choice whose program it shares; the different programs; and the cycles that
    each of them is predicted to take.
    """
    base, shared = BACKEND.target(Request()), {}
    texts: dict[str, str] = {}
    functions: dict[str, Callable[..., Any]] = {}
    cycles: dict[str, float] = {}
    for name, facts in CHOICES.items():
        hardware = replace(base.hardware, **facts)
        target: Target = replace(base, hardware=hardware, unmeasured=base.hardware)
        lowered = lower(model, target)
        text = repr(BACKEND.emit(lowered.program, target))
        shared[name] = texts.setdefault(text, name)
        if shared[name] == name:
            functions[name] = executable(lowered, BACKEND)
            cycles[name] = predicted(lowered, target, base, shape)
    return shared, functions, cycles


def predicted(
    lowered: Lowered, target: Target, shipped: Target, shape: tuple[int, int, int]
) -> float:
    """Cycles of a program by `shipped` facts: those of its register tiles, and what its choices
    cost. Reading panels in place takes longer than reading packed ones by the penalty; packing is
    a read from the third-level cache and `PACKED` from the second; a constant too large for half of
    the second-level cache comes from beyond it while the first row tile waits, unless it was
    prefetched.
    """
    (found,) = (
        schedule
        for group in lowered.partition.groups
        for schedule in lowered.schedules(group).schedules.values()
        if isinstance(schedule, GemmSchedule)
    )
    rows, depth, columns = shape
    hardware, nbytes = shipped.hardware, depth * columns * 4
    total = register_tile.whole(found.tile, shipped, DType.F32, (1, rows), columns, depth)
    tiles = -(-rows // found.tile.rows[1])
    if found.right == "direct":
        apart = gcd(hardware.l2_bytes, columns * 4)
        stays = depth * max(apart, found.tile.width * 4) <= hardware.l2_room // 2
        penalty = hardware.apart_penalty if stays else hardware.stride_penalty
        near = nbytes <= hardware.l1_bytes // 2
        return total + (0 if near else tiles * nbytes * penalty / hardware.l2_rate)
    if found.right == "running":
        return total + nbytes / hardware.l3_rate + PACKED * nbytes / hardware.l2_rate
    if nbytes <= hardware.l2_room // 2:
        return total
    waited = nbytes / hardware.l3_rate
    ahead = found.prefetch and tiles >= target.hardware.prefetch_tiles
    return max(total, waited) if ahead else total + waited


def least(
    functions: dict[str, Callable[..., Any]], given: list[Any], flops: int, seconds: float
) -> dict[str, float]:
    """The least seconds of this thread in a call of each program: what other processes take of a
    processor does not count.
    """
    many = max(1, int(0.004 * 30e9 / flops))
    seconds_by_name = {name: float("inf") for name in functions}
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for name, call in functions.items():
            begin = time.thread_time()
            for _ in range(many):
                call(*given)
            seconds_by_name[name] = min(seconds_by_name[name], (time.thread_time() - begin) / many)
    return seconds_by_name


def main(seconds: float) -> None:
    """Prints a row for each product, and the mean regret of each choice."""
    cases = [(n, n, n, "input") for n in SQUARES] + [(*shape, "input") for shape in OTHERS]
    cases += [(*shape, "weight") for shape in CONSTANT]
    regret: dict[str, list[float]] = {name: [] for name in CHOICES}
    times, models, work, pairs = list[float](), list[float](), list[int](), list[bool]()
    print(f"| product | GF | {' | '.join(CHOICES)} |\n|{'---|' * (2 + len(CHOICES))}")
    for rows, depth, columns, kind in cases:
        model, given = product(rows, depth, columns, kind)
        shared, functions, cycles = programs(model, (rows, depth, columns))
        flops = 2 * rows * depth * columns
        took = least(functions, given, flops, seconds)
        best = min(took.values())
        times.append(took["shipped"])
        models.append(cycles["shipped"])
        work.append(flops)
        pairs += [
            (cycles[a] < cycles[b]) == (took[a] < took[b])
            for a, b in combinations(functions, 2)
            if abs(took[a] / took[b] - 1) > APART and cycles[a] != cycles[b]
        ]
        for name in CHOICES:
            regret[name].append(took[shared[name]] / best)
        cells = " | ".join(f"{regret[name][-1]:.2f}" for name in CHOICES)
        word = " constant" if kind == "weight" else ""
        shape = f"{rows}×{depth}×{columns}{word}"
        print(f"| {shape} | {flops / best / 1e9:.0f} | {cells} |", flush=True)
    means = (f"{exp(sum(map(log, one)) / len(one)):.3f}" for one in regret.values())
    print(f"| geometric mean | | {' | '.join(means)} |")
    print(f"| worst | | {' | '.join(f'{max(one):.2f}' for one in regret.values())} |")
    each = [[one / n for one, n in zip(rows, work, strict=True)] for rows in (models, times)]
    print(f"\nrank correlation of predicted and measured times: {ranked(models, times):.3f}")
    print(f"the same of times divided by the operations: {ranked(*each):.3f}")
    print(f"pairs of programs of a product in the right order: {sum(pairs)} of {len(pairs)}")


def ranked(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    ranks = (np.argsort(np.argsort(values)) for values in (first, second))
    return float(np.corrcoef(*ranks)[0, 1])


def falsified() -> dict[str, dict[str, Any]]:
    """The facts shipped, and each cache and rate halved and doubled."""
    hardware, wrong = BACKEND.target(Request()).hardware, {"shipped": dict[str, Any]()}
    for name in ("l1_bytes", "l2_bytes", "l3_bytes", "l2_rate", "l3_rate", "memory_rate"):
        value = getattr(hardware, name)
        for by in (0.5, 2):
            wrong[f"{name} × {by}"] = {name: type(value)(value * by)}
    return wrong


if __name__ == "__main__":
    if "wrong" in sys.argv[1:]:
        CHOICES = falsified()
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5)
