"""A trainer's model with the averages of its weights in their place: `trainer.ema`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac.runtime.compiled import Compiled
from xlac.runtime.specialization import Specializing
from xlac.spec.training.ema import PREFIX
from xlac.training.loop.steps import Sums, means
from xlac.training.state import StateTensor
from xlac.training.weights import write_weights
from xlac_sdk.source import Diagnostic, SourceError

EVALUATE, RUN = "evaluate_ema", "run_ema"
"""The entries that compute with averages, as `evaluate` and `run` do with the weights."""


@dataclass(frozen=True, slots=True)
class Averages:
    """The model with averaged weights, as they are when it is called."""

    run_evaluate: Callable[[Mapping[str, Any]], Sums]
    """The loss and metrics of a batch by input, as sums and counts."""
    weights: Callable[[], dict[str, Array]]
    """A copy of every weight by name: averages, and the weights that do not change as they are."""
    _run: Callable[[Mapping[str, Any]], Any]
    _compiled: Callable[[Mapping[str, Array], Mapping[str, Any]], Compiled | Specializing]

    def evaluate(self, /, **arrays: Any) -> dict[str, float]:
        """The loss and metrics of a batch."""
        return means(self.run_evaluate(arrays))

    def __call__(self, /, **arrays: Any) -> Any:
        """The model's outputs."""
        return self._run(arrays)

    def model(self, **options: Any) -> Compiled | Specializing:
        """The model for inference with the averages as its weights, compiled as the trainer is;
        `options` are those of `xlac.compile`.
        """
        return self._compiled(self.weights(), options)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Writes `weights` as safetensors, by the names that the model's spec knows them by."""
        write_weights(Path(path), self.weights())


def with_averages(
    found: Mapping[str, Array], tensors: Mapping[str, StateTensor]
) -> dict[str, Array]:
    """Tensors of the state, and those averages, where such are kept, that begin as the weights
    among them.
    """
    kept = {name: tensors.get(f"{PREFIX}{name}") for name in found if tensors[name].learns}
    begun = {
        tensor.name: np.asarray(found[name]).astype(tensor.type.dtype.numpy)
        for name, tensor in kept.items()
        if tensor is not None
    }
    return {**found, **begun}


def no_averages() -> SourceError:
    """What is said where averages are asked for, and none are kept."""
    problem = "no averages of the weights are kept"
    return SourceError(Diagnostic("XL6056", problem, hint="train: {ema: {decay: 0.999}}"))
