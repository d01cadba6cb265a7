"""Ranks of which one never comes where the others wait: `mpirun … late_ranks.py WHERE LATE LIMIT`.

Rank LATE stops (SIGSTOP) at the place WHERE; the others wait for LIMIT seconds. At `slow` rank 0 is
late by LIMIT seconds and two more, and works.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from xlac.ranks.agreement import by_rank_0
from xlac_sdk.dtypes import DType
from xlac_sdk.host.ranks import mpi
from xlac_sdk.host.ranks.communicator import PreparedExchange


def main(where: str, late: int, limit: float) -> None:
    """Begins, lets rank 0 work, makes a group and ends."""
    number = int(os.environ["OMPI_COMM_WORLD_RANK"])

    def at(place: str) -> None:
        if place == where and number == late:
            os.kill(os.getpid(), signal.SIGSTOP)

    at("begin")
    here = mpi.opened(Path(tempfile.gettempdir()) / "xlac_mpi_tests", limit)

    def work() -> None:
        at("work")
        if where == "slow":
            time.sleep(limit + 2)

    by_rank_0(here, "compile", work)
    at("group")
    members = tuple(range(here.size))
    one = PreparedExchange(
        0, "all_reduce", DType.F32, "add", members, here.rank, 0, (), 1, 1, "sum"
    )
    table = here.table([one])
    here.settle()
    at("end")
    here.close()
    assert table
    print("ended", here.rank, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
