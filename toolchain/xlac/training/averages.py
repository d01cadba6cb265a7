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
"""The entries that use the averages where `evaluate` and `run` use the weights."""


@dataclass(frozen=True, slots=True)
class Averages:
    """The model with averaged weights. Each call uses the averages as they are at that time."""

    run_evaluate: Callable[[Mapping[str, Any]], Sums]
    """The loss and metrics of a batch (arrays by input), as sums and counts."""
    weights: Callable[[], dict[str, Array]]
    """A copy of every weight by name: its average, or a frozen weight itself."""
    _run: Callable[[Mapping[str, Any]], Any]
    _compiled: Callable[[Mapping[str, Array], Mapping[str, Any]], Compiled | Specializing]

    def evaluate(self, /, **arrays: Any) -> dict[str, float]:
        """The mean loss and metrics of a batch, by name."""
        return means(self.run_evaluate(arrays))

    def __call__(self, /, **arrays: Any) -> Any:
        """The model's outputs."""
        return self._run(arrays)

    def model(self, **options: Any) -> Compiled | Specializing:
        """The model for inference with the averages as its weights, compiled with the trainer's
        options; `options`, those of `xlac.compile`, override them.
        """
        return self._compiled(self.weights(), options)

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """Writes `weights` as safetensors, under the names of the model's spec. Raises OSError."""
        write_weights(Path(path), self.weights())


def with_averages(
    loaded: Mapping[str, Array], tensors: Mapping[str, StateTensor]
) -> dict[str, Array]:
    """Loaded state tensors; where averages are kept, also the averages of the loaded weights,
    initialized to these.
    """
    averages = {name: tensors.get(f"{PREFIX}{name}") for name in loaded if tensors[name].learns}
    initial = {
        tensor.name: np.asarray(loaded[name]).astype(tensor.type.dtype.numpy)
        for name, tensor in averages.items()
        if tensor is not None
    }
    return {**loaded, **initial}


def no_averages() -> SourceError:
    """The error for asking for averages where none are kept."""
    problem = "no averages of the weights are kept"
    return SourceError(Diagnostic("XL6056", problem, hint="train: {ema: {decay: 0.999}}"))
