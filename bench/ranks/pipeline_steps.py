"""Times steps of the transformer in a pipeline: `python pipeline_steps.py WAY MICRO_BATCHES`, alone
or under mpirun -n N. WAY is data, 1f1b, gpipe, or a number of stages on each rank.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from trained_models import SPECS, batch

import xlac
from xlac_sdk.host.ranks import mpi
from xlac_sdk.host.ranks.communicator import using

REPEATS = 30
DATA = "mesh: {data: null}\n"


def spec_of(way: str, count: int) -> str:
    """The model with four layers, and the sections of a way to divide it."""
    text = SPECS["transformer"].replace("repeat: 2", "repeat: 4")
    more = f"chunks: {way}" if way.isdecimal() else f"schedule: {way}"
    stages = f"mesh: {{stage: null}}\npipeline: {{axis: stage, {more}}}\n"
    sections = DATA if way == "data" else stages
    return sections + text.replace("train:\n", f"train:\n  accumulate: {count}\n")


def main(way: str, count: int) -> None:
    """Prints a line: way, ranks, micro-batches, best and middle milliseconds of a step, loss."""
    here = mpi.opened(Path(tempfile.gettempdir()) / "xlac_bench_mpi") if mpi.launched() else None
    with using(here) if here else nullcontext(), tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "model.yaml"
        spec.write_text(spec_of(way, count), "utf-8")
        axis = "data" if way == "data" else "stage"
        trainer = xlac.trainer(spec, mesh=f"{axis}={here.size}" if here else None, threads=1)
        given: Any = batch("transformer")
        for _ in range(3):
            loss = trainer.step(**given)["loss"]
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            loss = trainer.step(**given)["loss"]
            times.append(time.perf_counter() - began)
        if here is None or here.rank == 0:
            times.sort()
            middle = times[len(times) // 2]
            ranks = here.size if here else 1
            print(f"{way},{ranks},{count},{times[0] * 1e3:.2f},{middle * 1e3:.2f},{loss:.6f}")
    if here:
        here.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
