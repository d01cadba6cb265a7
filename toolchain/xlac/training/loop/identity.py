"""The identity of a run: what decides its results to the bit, and so cannot change on resuming."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.training.data import order
from xlac.training.data.batches import TrainingData
from xlac.training.data.column import fault
from xlac.training.loop.options import RunOptions
from xlac.training.loop.run_folder import RunFolder
from xlac.training.loop.steps import TrainingSteps

SAME = {
    "seed": "--seed",
    "batch": "--batch",
    "drop_last": "--drop-last",
    "shuffle": "--no-shuffle",
    "data": "other data",
    "order": "another order of rows",
}
"""The parts that must be unchanged beside the model, and their names in messages."""


def identity(
    steps: TrainingSteps, data: TrainingData, options: RunOptions, batch: int
) -> dict[str, Any]:
    """The identity as JSON, as checkpoints hold it."""
    return {
        "fingerprint": steps.fingerprint,
        "seed": options.seed,
        "batch": batch,
        "drop_last": options.drop_last,
        "shuffle": options.shuffle,
        "order": order.NAME,
        "data": data.digest,
    }


def compare(before: Mapping[str, Any], now: Mapping[str, Any], folder: RunFolder) -> None:
    """Raises SourceError where a checkpoint of `folder` is of a run with another identity."""
    if before.get("fingerprint") != now["fingerprint"]:
        problem = f"{folder.last} is a checkpoint of another model, or of other training"
        hint = "resume with the spec and options of the run, or begin another with -o"
        raise fault("XL6334", problem, hint)
    for name, label in SAME.items():
        if before.get(name) == now[name]:
            continue
        shown = "" if name in ("data", "order") else f" {before.get(name)}, not {now[name]}"
        problem = f"{folder.path} was begun with {label}{shown}"
        raise fault("XL6335", problem, "a run goes on as it was begun; -o begins another")
