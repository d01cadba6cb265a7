"""TensorBoard's events, by tensorboardX or PyTorch's writer, whichever is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.support.extras import needed


class EventWriter:
    """Scalars by step. Raises SourceError where neither writer is installed; events of steps after
    `step`, of a run that was killed, are marked as void.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._writer: Any = event_writer()(str(folder), purge_step=step + 1)

    def write(self, row: Mapping[str, float]) -> None:
        """A row of metrics.csv."""
        for name, value in row.items():
            if name not in ("epoch", "step"):
                self._writer.add_scalar(name, value, int(row["step"]))
        self._writer.flush()

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def event_writer() -> Any:
    """The class that writes. Raises SourceError where none is installed."""
    with needed("--tensorboard"):
        try:
            from tensorboardX import SummaryWriter
        except ImportError as missing:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise missing from None
        return SummaryWriter
