"""Ranks that train around rings, whatever these cost: `mpirun … ring_ranks.py SPEC MESH TIME`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import xlac
from xlac.spmd import model
from xlac.spmd.model import collectives
from xlac.spmd.partition import Partitioned
from xlac_sdk.host.ranks import mpi
from xlac_sdk.host.ranks.communicator import using

BATCH, WORDS = 4, 24


def gathers(made: Partitioned) -> float:
    """How much is gathered, in place of the predicted time."""
    return sum(node.op.mnemonic == "all_gather" for node, _ in collectives(made))


def trained(spec: str, time: int, mesh: str | None) -> tuple[list[float], dict[str, Any]]:
    """The losses of three steps, and the state after them."""
    trainer = xlac.trainer(spec, mesh=mesh)
    losses = []
    for step in range(3):
        drawn = np.random.default_rng(step).integers(0, WORDS, (BATCH, time + 1)).astype(np.int32)
        losses.append(trainer.step(x=drawn[:, :-1], y=drawn[:, 1:])["loss"])
    return losses, trainer.state()


def main(spec: str, mesh: str, time: int) -> None:
    """Trains among ranks and alone, and compares."""
    model._predicted = gathers
    wanted, state = trained(spec, time, None)
    here = mpi.opened(Path(tempfile.gettempdir()) / "xlac_mpi_tests", 120)
    with using(here):
        losses, own = trained(spec, time, mesh)
    np.testing.assert_allclose(losses, wanted, rtol=1e-10)
    for name, array in state.items():
        np.testing.assert_allclose(own[name], array, rtol=0, atol=1e-8, err_msg=name)
    here.settle()
    print("equal", here.rank, flush=True)
    here.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
