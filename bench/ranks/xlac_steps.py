"""Times training steps of xlac: `python xlac_steps.py MODEL`, alone or under mpirun -n N."""

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

STEPS, REPEATS = 4, 15


def main(name: str, shard: str) -> None:
    """Prints a line: what, model, ranks, best and middle milliseconds, loss."""
    here = mpi.opened(Path(tempfile.gettempdir()) / "xlac_bench_mpi") if mpi.launched() else None
    with using(here) if here else nullcontext(), tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "model.yaml"
        text = SPECS[name]
        if shard:
            text = text.replace("train:\n", f"train:\n  shard: {shard}\n")
        spec.write_text(text, "utf-8")
        mesh = f"data={here.size}" if here else None
        trainer = xlac.trainer(spec, mesh=mesh, threads=1)
        given: Any = batch(name)
        for _ in range(3):
            loss = trainer.step(**given)["loss"]
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            for _ in range(STEPS):
                loss = trainer.step(**given)["loss"]
            times.append((time.perf_counter() - began) / STEPS)
        if here is None or here.rank == 0:
            ranks = here.size if here else 1
            times.sort()
            label = f"xlac {shard}".strip()
            middle = times[len(times) // 2]
            print(f"{label},{name},{ranks},{times[0] * 1e3:.2f},{middle * 1e3:.2f},{loss:.5f}")
    if here:
        here.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
