"""Measurements without a peer: fresh processes of xlac, cold and warm, memory against its bound,
and a call from C.

    python bench/own.py MODELS_DIR OUT.json [NAME …]

A cold process finds an empty cache, a warm one what the cold one left. Each imports xlac, compiles
the ONNX file for one thread and calls it once; the whole process counts, interpreter and imports
included. `ready` is its CPU seconds until it could be called, of all its threads (NumPy's import
makes some that spin), `ready_wall` the seconds since it was started. Byte code is there, as after
an installation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WARM = 5  # warm processes, of which the quickest counts
CALLS = 200_000  # a burst of calls from C
CHILD = """
import sys, time
import numpy as np, xlac
run = xlac.compile(sys.argv[1] + "/model.onnx", threads=1)
ready, wall = time.process_time(), time.monotonic() - float(sys.argv[2])
import json
with np.load(sys.argv[1] + "/inputs.npz") as arrays:
    inputs = [arrays[name] for name in run.inputs]
run(*inputs)
program = run.program
told = {"ready": ready, "ready_wall": wall}
told |= {"arena_bytes": program.arena_bytes, "live_bytes": program.facts.get("live_bytes")}
print(json.dumps(told))
"""
TIMER = """
#include <stdio.h>
#include <time.h>
#include "mlp_small.h"
static _Alignas(MLP_SMALL_ALIGN) unsigned char memory[MLP_SMALL_MEMORY_BYTES];
static float x[MLP_SMALL_X_COUNT], y[MLP_SMALL_Y_COUNT];
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
int main(void) {
    mlp_small_context context;
    if (mlp_small_init(&context, memory, sizeof memory)) return 1;
    double best = 1;
    for (int burst = 0; burst < 9; burst++) {
        double start = now();
        for (int i = 0; i < CALLS; i++) if (mlp_small_run(&context, x, y)) return 2;
        double took = (now() - start) / CALLS;
        if (took < best) best = took;
    }
    printf("%.9e\\n", best);
    return 0;
}
"""


def process(model: Path, cache: Path) -> dict[str, Any]:
    """One fresh process: its CPU and wall seconds, peak memory, and what it says of its program."""
    begin, surroundings = (
        time.monotonic(),
        {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )
    command = [sys.executable, "-c", CHILD, str(model), str(begin)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, env=surroundings | {"XLAC_CACHE": str(cache)}
    )
    assert child.stdout is not None
    said = json.loads(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"{model.name}: a process ended with {status}")
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.monotonic() - begin,
        "peak_rss_mb": usage.ru_maxrss / 1024,
        **said,
    }


def starts(model: Path) -> dict[str, Any]:
    """A cold process and the best warm one."""
    with tempfile.TemporaryDirectory() as cache:
        cold = process(model, Path(cache))
        warm = [process(model, Path(cache)) for _ in range(WARM)]
    return {"cold": cold, "warm": min(warm, key=lambda run: float(run["ready"]))}


def called_from_c(model: Path) -> float:
    """Seconds of a call of mlp_small as a shared library, from C."""
    with tempfile.TemporaryDirectory() as folder:
        xlac = Path(sys.executable).with_name("xlac")
        subprocess.run(
            [xlac, "build", model / "model.onnx", "--emit", "h,so", "-o", f"{folder}/built"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        source = Path(folder, "timer.c")
        source.write_text(TIMER, encoding="utf-8")
        command: list[str | Path] = [
            "cc",
            "-O2",
            f"-DCALLS={CALLS}",
            source,
            "-o",
            f"{folder}/timer",
            f"-I{folder}/built",
            f"-L{folder}/built",
            "-lmlp_small",
            f"-Wl,-rpath,{folder}/built",
        ]
        subprocess.run(command, check=True)
        return float(
            subprocess.run([f"{folder}/timer"], check=True, capture_output=True, text=True).stdout
        )


def main() -> None:
    """Measures what only xlac has and writes it as JSON."""
    models, out = map(Path, sys.argv[1:3])
    report: dict[str, Any] = {"starts": {}}
    names = sys.argv[3:] or [folder.name for folder in models.iterdir()]
    for model in (
        models / name for name in sorted(names) if (models / name / "model.onnx").exists()
    ):
        report["starts"][model.name] = starts(model)
        print(
            f"{model.name}: warm {report['starts'][model.name]['warm']['ready']:.3f} s", flush=True
        )
    report["seconds_from_c"] = called_from_c(models / "mlp_small")
    out.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
