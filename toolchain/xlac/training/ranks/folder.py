"""The folder and the table of a run among ranks: rank 0 writes, all read the same checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from xlac.ranks.agreement import by_rank_0
from xlac.training.data.column import fault
from xlac.training.loop import checkpoint
from xlac.training.loop.checkpoint import BadCheckpoint, Checkpoint
from xlac.training.loop.metrics import MetricsRow, MetricsTable
from xlac.training.loop.run_folder import RunFolder
from xlac.training.loop.steps import TrainingSteps
from xlac_sdk.host.ranks.communicator import Communicator


class RankFolder(RunFolder):
    """A run's folder, which every rank uses alike: an error of rank 0, such as a full disk, ends
    the others with ReportedElsewhereError.
    """

    def __init__(self, path: Path, keep: int, here: Communicator) -> None:
        super().__init__(path, keep)
        self.here = here

    def check(self, resume: bool) -> None:
        by_rank_0(self.here, "look at the folder", lambda: RunFolder.check(self, resume))

    @contextmanager
    def locked(self) -> Iterator[None]:
        with ExitStack() as held:
            lock = RunFolder.locked(self)
            by_rank_0(self.here, "lock the folder", lambda: held.enter_context(lock))
            yield

    def describe(self, about: Mapping[str, Any]) -> None:
        by_rank_0(self.here, "write run.json", lambda: RunFolder.describe(self, about))

    def newest(self, tell: Callable[[str], object]) -> Checkpoint | None:
        """The newest intact checkpoint that rank 0 sees, read by every rank. Raises SourceError
        where one cannot read it.
        """
        found: list[Checkpoint | None] = []

        def first() -> bytes:
            found.append(RunFolder.newest(self, tell))
            return str(self.last.name).encode() if self.last is not None else b""

        name = by_rank_0(self.here, "read a checkpoint", first).decode()
        if found or not name:
            return found[0] if found else None
        self.last = self.checkpoints / name
        try:
            return checkpoint.read(self.last)
        except (BadCheckpoint, OSError) as error:
            problem = f"rank {self.here.rank} cannot read {self.last}: {error}"
            raise fault("XL6333", problem, "a run's folder is on a disk of all ranks") from None

    def save(self, saved: Checkpoint) -> None:
        """Writes a checkpoint on rank 0. Raises SourceError where a rank has another state."""
        own = np.frombuffer(checkpoint.state_digest(saved.state).encode(), np.uint8)
        every = self.here.gather(own) or []

        def write() -> None:
            strange = [rank for rank, one in enumerate(every) if (one != every[0]).any()]
            if strange:
                problem = f"rank {strange[0]} has another state than rank 0"
                hint = "the same numbers came out otherwise there: other processors, or a fault"
                raise fault("XL7811", f"{problem} after step {saved.position.step}", hint)
            RunFolder.save(self, saved)

        by_rank_0(self.here, "write a checkpoint", write)

    def _keep_checkpoint(self, step: int) -> None:
        by_rank_0(self.here, "keep a checkpoint", lambda: RunFolder._keep_checkpoint(self, step))

    def save_weights(self, steps: TrainingSteps, merge: bool, prefix: str = "") -> None:
        steps.state()  # what ranks gather together, rank 0 then reads alone
        by_rank_0(
            self.here, "write weights", lambda: RunFolder.save_weights(self, steps, merge, prefix)
        )


def run_files(
    here: Communicator | None, path: Path, keep: int, columns: tuple[str, ...]
) -> tuple[RunFolder, MetricsTable]:
    """The folder and the table of a run, of one process or among ranks."""
    table = path / "metrics.csv"
    if here is None:
        return RunFolder(path, keep), MetricsTable(table, columns)
    return RankFolder(path, keep, here), RankTable(table, columns, here)


class RankTable(MetricsTable):
    """The rows of a run, in memory on every rank, and on the disk of rank 0."""

    def __init__(self, path: Path, columns: tuple[str, ...], here: Communicator) -> None:
        super().__init__(path, columns)
        self.here = here

    def begin(self, until: int) -> None:
        def first() -> bytes:
            MetricsTable.begin(self, until)
            return json.dumps(self.rows).encode()

        self.rows = json.loads(by_rank_0(self.here, "read metrics.csv", first))

    def append(self, row: MetricsRow) -> None:
        if self.here.rank:
            self.rows.append(row)
        by_rank_0(self.here, "write metrics.csv", lambda: MetricsTable.append(self, row))
