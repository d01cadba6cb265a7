"""How good the schedules are that are chosen by tuned facts: kernels by the port's own facts, by
those of `xlac backend tune`, and by every schedule of a grid.

    python bench/tune.py [TARGET] [ARCH] [SECONDS]

tunes the device (opencl, cpu) and prints a row for each kernel: the best time of the grid, and of
both choices how much of its speed they reach. SECONDS (60) is the most that a kernel's grid takes;
what it leaves of the grid is drawn at random and counted.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from bursts import best_bursts

from xlac.debug.decisions import schedules
from xlac.driver import compile as compiled
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac.options import CompileOptions
from xlac_sdk.host.registry import find
from xlac_sdk.source import XlacError
from xlac_sdk.tuning.tune import tune

MOST = 200  # schedules of a kernel
FINALS = 6  # that are measured again, beside the choices
KERNELS = {
    "matmul 256": (["a: f32[256, 256]", "b: f32[256, 256]"], "matmul(a, b)"),
    "softmax of 512 by 1024": (["a: f32[512, 1024]"], "softmax(a, axis=-1)"),
    "sums of columns of 1024 by 1024": (["a: f32[1024, 1024]"], "sum(a, axis=0)"),
    "transpose of 1024 by 1024": (["a: f32[1024, 1024]"], "transpose(a, perm=[1, 0])"),
    "gelu of 1024 by 1024": (["a: f32[1024, 1024]"], "gelu(a)"),
}
AXES: Mapping[str, Mapping[str, list[Any]]] = {
    "gemm": {
        "tile.rows": [[1, 2], [1, 3], [1, 4], [1, 6]],
        "tile.vectors": [1, 2, 3, 4],
        "tile.lanes": [4, 8, 16],
        "unroll": [[1, 1], [4, 2], [8, 8]],
        "prefetch": [False],
    },
    "row_reduction": {
        "lanes": [1, 4, 8, 16],
        "unroll": [1, 2, 4, 8],
        "chunk": [0, 32, 256],
        "join": [False, True],
        "threads.grain": [1, 16],
    },
    "elementwise": {
        "nests.0.vector": [0, 1],
        "nests.0.lanes": [1, 4, 8, 16],
        "nests.0.unroll": [1, 2, 4],
        "nests.0.chunk": [0, 1024, 8192],
        "nests.0.blocks.side": [8, 16, 32, 64],
        "nests.0.blocks.in_registers": [False, True],
        "nests.0.blocks.prefetch": [False, True],
    },
    "simt_gemm": {
        "warps": [[1, 1], [1, 2], [2, 1], [2, 2], [4, 2], [2, 4], [4, 4]],
        "pieces": [[1, 1], [1, 2], [2, 1], [2, 2]],
        "pitches": [[36, 68], [68, 68], [132, 132]],
        "stages": [1, 2],
    },
    "gpu_row_reduction": {
        "lanes": [1, 2, 4],
        "width": [1, 8, 16, 32, 64, 128],
        "threads": [32, 64, 128, 256],
        "ahead": [1, 4],
        "written_out": [False, True],
    },
    "gpu_column_reduction": {
        "lanes": [1, 2, 4],
        "width": [1, 4, 8, 16, 32],
        "threads": [64, 128, 256],
        "ahead": [1, 4, 8],
    },
    "gpu_elementwise": {
        "nests.0.lanes": [1, 2, 4],
        "nests.0.copies": [1, 2, 4, 8],
        "nests.0.threads": [32, 64, 128, 256],
        "nests.0.tile.pitch": [32, 33, 36],
    },
}
Chosen = dict[str, Any]  # schedules by group and part, as documents have them


def variants(chosen: Chosen) -> Iterator[Chosen]:
    """The grid around the schedules of a model with one group: all combinations of the values of
    its template's axes, those that it lacks left out.
    """
    ((group, parts),) = chosen.items()
    template = parts["main"]["template"]
    axes = {path: values for path, values in AXES[template].items() if _has(parts["main"], path)}
    for values in itertools.product(*axes.values()):
        changed = deepcopy(parts)
        for path, value in zip(axes, values, strict=True):
            _set(changed["main"], path, value)
        yield {group: changed}


def _has(entry: Any, path: str) -> bool:
    for step in path.split("."):
        key = int(step) if isinstance(entry, list) else step
        if isinstance(entry, dict) and step not in entry:
            return False
        entry = entry[key]
        if entry is None:
            return False
    return True


def _set(entry: Any, path: str, value: Any) -> None:
    *before, last = path.split(".")
    for step in before:
        entry = entry[int(step) if isinstance(entry, list) else step]
    old = entry[last]
    # one number for a row of them
    entry[last] = [value] * len(old) if isinstance(old, list) and isinstance(value, int) else value


class Kernel:
    """A model of one kernel for a device, of which `facts` were tuned."""

    def __init__(
        self,
        name: str,
        target: str,
        options: CompileOptions,
        facts: Mapping[str, Any],
        folder: Path,
    ) -> None:
        inputs, expression = KERNELS[name]
        lines = [f"  {line}" for line in inputs]
        text = ["xlac: 1", "model: bench", "inputs:", *lines, "graph:", f"  y: {expression}"]
        self.spec = folder / f"{name.replace(' ', '_')}.yaml"
        self.spec.write_text("\n".join([*text, "outputs: [y]", ""]))
        self.target, self.options, self.facts = target, options, tuple(facts.items())
        rng = np.random.default_rng(0)
        model = load(str(self.spec))
        shapes = [node.type.shape for node in model.graph.inputs]
        self.given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

    def chosen(self, *facts: tuple[str, Any]) -> Chosen:
        """The schedules that the compiler chooses by the port's facts, or by others."""
        options = replace(self.options, facts=facts)
        backend = find(self.target)
        lowered = lower(load(str(self.spec)), backend.target(options.request))
        by_group: Chosen = yaml.safe_load(schedules(lowered))["schedules"]
        return by_group

    def call(self, chosen: Chosen) -> Any:
        """A function that runs the kernel by schedules. Raises XlacError for those that fit neither
        the port's facts nor the tuned ones, which may have more registers.
        """
        options = replace(self.options, facts=(), schedules={"schedules": chosen})
        try:
            executable = compiled(str(self.spec), self.target, options)
        except XlacError:
            options = replace(options, facts=self.facts)
            executable = compiled(str(self.spec), self.target, options)
        return lambda: executable(*self.given)


def quick(call: Any) -> float:
    """The least seconds of a few calls."""
    times = []
    for _ in range(6):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times[1:])


def compare(kernel: Kernel, seconds: float) -> tuple[list[float], int]:
    """Seconds by the port's facts, by tuned ones and by the best of the grid; how many schedules of
    the grid ran.
    """
    choices = [kernel.chosen(), kernel.chosen(*kernel.facts)]
    grid = [one for chosen in choices for one in variants(chosen)]
    distinct = list({repr(one): one for one in grid}.values())
    random.Random(0).shuffle(distinct)
    times: list[tuple[float, int, Chosen]] = []
    end = time.perf_counter() + seconds
    for number, one in enumerate(distinct):
        if len(times) == MOST or time.perf_counter() > end:
            break
        try:
            times.append((quick(kernel.call(one)), number, one))
        except XlacError:  # it does not fit
            continue
    best = [one for _, _, one in sorted(times, key=lambda entry: entry[:2])[:FINALS]]
    finals = {repr(one): one for one in (*choices, *best)}
    calls = [kernel.call(one) for one in finals.values()]
    took = dict(zip(finals, best_bursts(calls, bursts=40, clock=time.perf_counter), strict=True))
    fastest = min(took, key=lambda name: took[name])
    print(f"fastest: {fastest}\ntuned: {choices[1]}", file=sys.stderr, flush=True)
    return [*(took[repr(one)] for one in choices), took[fastest]], len(times)


def main(target: str = "opencl", arch: str = "cpu", seconds: str = "60") -> None:
    """Tunes, and prints the rows and the geometric means."""
    options = CompileOptions(arch=arch)
    backend = find(target)
    result = tune(backend, backend.target(replace(options, facts=()).request))
    print(", ".join(f"{name} {value}" for name, value in sorted(result.facts.items())))
    print("| kernel | schedules | best, µs | by the port's facts | by tuned facts |")
    print("|---|---|---|---|---|", flush=True)
    parts: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in KERNELS:
            kernel = Kernel(name, target, options, result.facts, Path(folder))
            (own, tuned, best), count = compare(kernel, float(seconds))
            parts.append((best / own, best / tuned))
            cells = f"{best * 1e6:.0f} | {best / own:.0%} | {best / tuned:.0%}"
            print(f"| {name} | {count} | {cells} |", flush=True)
    means = [exp(sum(map(log, column)) / len(parts)) for column in zip(*parts, strict=True)]
    print(f"| geometric mean | | | {means[0]:.0%} | {means[1]:.0%} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
