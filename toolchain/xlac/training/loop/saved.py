"""`save` and `load` of a trainer: its whole state in a folder, for a loop of the user's own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

from xlac.training.data.column import fault
from xlac.training.loop import checkpoint
from xlac.training.loop.checkpoint import BadCheckpoint, Checkpoint, RunPosition
from xlac.training.loop.run_folder import RunFolder
from xlac.training.loop.steps import TrainingSteps

SAVED = "checkpoint.safetensors"


class SavedState:
    """`save` and `load` of what implements `TrainingSteps`."""

    def save(self: TrainingSteps, folder: str | os.PathLike[str]) -> None:
        """Writes the training state to `folder` as checkpoint.safetensors, and the weights as
        weights.safetensors beside it (with the files of LoRA factors and averages, if any), each
        whole or not at all. Raises LimitError where the disk is full, and OSError.
        """
        place = RunFolder(Path(folder), keep=1)
        place.path.mkdir(parents=True, exist_ok=True)
        position = RunPosition(step=self.steps_done)
        whole = Checkpoint({"fingerprint": self.fingerprint}, position, self.state())
        checkpoint.write(place.path / SAVED, whole, f"{place.path} has what it had before")
        place.save_weights(self, merge=True)

    def load(self: TrainingSteps, path: str | os.PathLike[str]) -> None:
        """Sets the state that `save` wrote to a folder, that of the newest checkpoint of a run's
        folder, or of one checkpoint file. Raises SourceError, and changes nothing then.
        """
        saved = _read(Path(path), warnings.warn)
        if saved.identity.get("fingerprint") != self.fingerprint:
            problem = f"{path} is a checkpoint of another model, or of other training"
            hint = "the spec and options of its trainer; weights alone are named in a spec"
            raise fault("XL6334", problem, hint)
        self.restore(saved.state)


def _read(path: Path, tell: Callable[[str], object]) -> Checkpoint:
    """The checkpoint of a file or folder. Raises SourceError."""
    file = path / SAVED if path.is_dir() else path
    if path.is_dir() and not file.exists():
        newest = RunFolder(path, keep=1).newest(tell)
        if newest is None:
            hint = "what trainer.save wrote, a folder of xlac train, or a checkpoint"
            raise fault("XL6332", f"there is no checkpoint in {path}", hint)
        return newest
    try:
        return checkpoint.read(file)
    except (BadCheckpoint, OSError) as error:
        raise fault("XL6333", f"{file} cannot be read: {error}") from None
