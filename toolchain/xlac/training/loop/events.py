"""TensorBoard event files, written by tensorboardX or PyTorch's writer, whichever is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.support.extras import needed


class EventWriter:
    """Writes scalars by step. Events after `step`, left by a run that was killed, are purged.
    Raises SourceError where neither writer is installed.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._writer: Any = event_writer()(str(folder), purge_step=step + 1)

    def write(self, row: Mapping[str, float]) -> None:
        """Writes the numbers of a row of metrics.csv."""
        for name, value in row.items():
            if name not in ("epoch", "step"):
                self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._writer.close()


def event_writer() -> Any:
    """The installed `SummaryWriter` class. Raises SourceError where there is none."""
    with needed("--tensorboard"):
        try:
            from tensorboardX import SummaryWriter
        except ImportError as missing:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise missing from None
        return SummaryWriter
