"""The folder of a run: its lock, the checkpoints that it keeps, and the one to resume from."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from xlac.training.data.column import fault
from xlac.training.loop import checkpoint
from xlac.training.loop.checkpoint import BadCheckpoint, Checkpoint
from xlac.training.loop.description import described
from xlac.training.loop.files import clear_temporary, replacing
from xlac.training.loop.steps import TrainingSteps

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

ABOUT, LOCK = "run.json", ".lock"
CHECKPOINT, WEIGHTS, AVERAGES = "best.safetensors", "weights.safetensors", "ema_weights.safetensors"
BEST = "best_"  # prefix of the weights of the best epoch


class RunFolder:
    """A folder with run.json, metrics.csv, checkpoints/ and the weights of a run."""

    def __init__(self, path: Path, keep: int) -> None:
        self.path, self.keep = path, keep
        self.checkpoints = path / "checkpoints"
        self.last: Path | None = None  # the newest checkpoint that is known to be whole

    def check(self, resume: bool) -> None:
        """Raises SourceError where a new run's folder is not empty, and where the folder to resume
        has no run.
        """
        if resume and not (self.path / ABOUT).is_file() and not self._is_begun():
            problem = f"there is no run in {self.path} to go on with"
            raise fault("XL6332", problem, "-o begins a new one")
        if not resume and self.path.exists() and not self._is_empty():
            problem = f"{self.path} exists, and training would write into it"
            hint = (
                f"--resume {self.path} goes on with it, where it is a run; -o takes another folder"
            )
            raise fault("XL6331", problem, hint)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder for the block. Raises SourceError where another process has it."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("w") as held:
            if fcntl is not None:
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise fault("XL6336", f"another process trains in {self.path}") from None
            clear_temporary(self.path)
            clear_temporary(self.checkpoints)
            yield

    def _is_empty(self) -> bool:
        return self.path.is_dir() and not any(self.path.iterdir())

    def _is_begun(self) -> bool:
        """Whether a run was killed before it wrote run.json: nothing else is in the folder."""
        if not self.path.is_dir() or not (self.path / LOCK).is_file():
            return False
        ours = {LOCK, self.checkpoints.name}
        return all(p.name in ours or p.name.startswith(".run.json") for p in self.path.iterdir())

    def describe(self, about: Mapping[str, Any]) -> None:
        """Writes run.json."""
        with replacing(self.path / ABOUT, ABOUT) as temporary:
            temporary.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")

    def newest(self, tell: Callable[[str], object]) -> Checkpoint | None:
        """The newest intact checkpoint, or None where there is no file; `tell` gets a warning for
        each damaged one. Raises SourceError where all are damaged.
        """
        paths = checkpoint.listed(self.checkpoints)
        for path in paths:
            try:
                intact = checkpoint.read(path)
            except (BadCheckpoint, OSError) as error:
                tell(f"warning: {path} is damaged and left out: {error} [XL6333]")
                continue
            self.last = path
            return intact
        if paths:
            problem = f"every checkpoint in {self.checkpoints} is damaged"
            raise fault("XL6333", problem, f"{paths[0].name} is the newest")
        return None

    def save(self, saved: Checkpoint) -> None:
        """Writes a checkpoint, then removes all but the newest `keep`. Raises LimitError where the
        disk is full; earlier checkpoints are intact then.
        """
        path = checkpoint.path_of(self.checkpoints, saved.position.step)
        kept = f"{self.last} is whole: --resume {self.path} goes on from it" if self.last else ""
        checkpoint.write(path, saved, kept)
        self.last = path
        newer = [p for p in checkpoint.listed(self.checkpoints) if p <= path]
        for old in newer[self.keep :]:
            with suppress(OSError):
                old.unlink()

    def keep_best(self, step: int, steps: TrainingSteps, merge: bool) -> None:
        """Keeps the checkpoint of a step, and the present weights, as the best."""
        self._keep_checkpoint(step)
        self.save_weights(steps, merge, BEST)

    def _keep_checkpoint(self, step: int) -> None:
        path = checkpoint.path_of(self.checkpoints, step)
        kept = f"{path} is whole: --resume {self.path} goes on from it"
        with replacing(self.path / CHECKPOINT, CHECKPOINT, kept) as temporary:
            temporary.unlink()
            try:
                os.link(path, temporary)
            except OSError:
                shutil.copyfile(path, temporary)

    def save_weights(self, steps: TrainingSteps, merge: bool, prefix: str = "") -> None:
        """Writes the present weights and their averages, if any, and the files of LoRA factors;
        these alone where there are some and `merge` is false. Raises LimitError where the disk is
        full.
        """
        files = dict(steps.parts)
        if merge or not files:
            files[WEIGHTS] = steps.save_weights
            if steps.averages:
                files[AVERAGES] = steps.ema.save_weights
        for name, save in files.items():
            self._save(f"{prefix}{name}", save)

    def _save(self, name: str, save_weights: Callable[[Path], None]) -> None:
        kept = f"{self.last} is whole: --resume {self.path} goes on from it" if self.last else ""
        with replacing(self.path / name, name, kept) as temporary:
            save_weights(temporary)


def about(path: Path, needed: bool) -> dict[str, Any]:
    """The content of run.json; empty where there is none, which is an error if it is `needed`.
    Raises SourceError.
    """
    if needed and not (path / ABOUT).is_file():
        hint = "a spec beside --resume tells what is trained; -o begins a new run"
        raise fault("XL6332", f"there is no {ABOUT} of a run in {path}", hint)
    return described(path / ABOUT)
