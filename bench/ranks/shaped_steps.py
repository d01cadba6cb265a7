"""Steps of training over a link: `mpirun -n 2 python shaped_steps.py MODEL ROWS REPEATS`.

Rank 0 prints a line of JSON: the median seconds of a step; predictions for links, given as
LATENCY,RATE after it, from one recorded step each; seconds of all-reduces of some sizes.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from recorded import RecordedRank, predicted
from trained_models import SPECS, batch

import xlac
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks import mpi
from xlac_sdk.host.ranks.communicator import ExchangeTable, PreparedExchange, using

PROBES = (1, 65_536, 262_144, 1_048_576)  # f32 elements of the all-reduces that measure the link


def probes(here: RecordedRank) -> dict[int, float]:
    """The least seconds of an all-reduce, by its bytes: what a link's latency and rate are."""
    members = tuple(range(here.size))
    found = {}
    for count in PROBES:
        one = PreparedExchange(
            0, "all_reduce", DType.F32, "add", members, here.rank, 0, (), count, count, "probe"
        )
        table = mpi.MpiRank.table(here, [one])
        here.settle()
        functions = ExchangeTable.from_address(table.address)
        source, target = np.ones(count, np.float32), np.empty(count, np.float32)
        times = []
        for _ in range(8):
            began = time.perf_counter()
            functions.start(table.address, 0, source.ctypes.data, target.ctypes.data)
            functions.done(table.address, 0)
            times.append(time.perf_counter() - began)
        assert (target == here.size).all()
        found[4 * count] = median(times)
    return found


def main(name: str, rows: int, repeats: int, links: list[tuple[float, float]]) -> None:
    """Prints what the docstring of the module says."""
    functions = ctypes.CDLL(str(mpi.library(Path(tempfile.gettempdir()) / "xlac_bench_mpi")))
    here = RecordedRank(functions)
    with using(here), tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "model.yaml"
        spec.write_text(SPECS[name], "utf-8")
        trainer = xlac.trainer(spec, mesh=f"data={here.size}", threads=1)
        usual: Any = batch(name)
        times = rows // len(next(iter(usual.values())))
        given = {n: np.concatenate([array] * times) for n, array in usual.items()}
        for _ in range(3):
            trainer.step(**given)
        (table,) = here.tables
        steps, told = [], []
        for _ in range(repeats):
            table.events.clear()
            here.gather(np.zeros(1, np.uint8))
            here.broadcast(b"")  # both begin together
            began = time.perf_counter()
            trainer.step(**given)
            ended = time.perf_counter()
            steps.append(ended - began)
            told.append([predicted(table.events, began, ended, *link) for link in links])
        link_times = probes(here)
    if here.rank == 0:
        middle = [
            {
                n: median(getattr(one[at], n) for one in told)
                for n in ("step", "compute", "wire", "exposed")
            }
            for at in range(len(links))
        ]
        print(json.dumps({"step": median(steps), "predicted": middle, "probes": link_times}))
    here.close()


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        [(float(a), float(b)) for a, b in (text.split(",") for text in sys.argv[4:])],
    )
