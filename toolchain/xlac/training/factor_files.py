"""`save_factors` and `load_factors` of a trainer: LoRA factors as files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from xlac.ir.op import Array
from xlac.spec.training.lora import LowRank
from xlac.training import weights
from xlac.training.averages import with_averages
from xlac.training.state import StateTensor


class Learning(Protocol):
    """What these methods need of a trainer: its factors and the weights that learn."""

    _factors: Mapping[str, LowRank]
    _tensors: Mapping[str, StateTensor]

    def _learned(self, prefix: str = "") -> dict[str, Array]: ...

    @property
    def averages(self) -> bool:
        """Whether averages of the weights are kept."""

    def state(self) -> dict[str, Array]:
        """A copy of the training state by name."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Sets a state."""


class FactorFiles:
    """Files of LoRA factors of what is `Learning`."""

    def save_factors(self: Learning, path: str | os.PathLike[str]) -> None:
        """Writes the weights that learn, with LoRA factors, as safetensors. Raises OSError."""
        weights.write_factors(Path(path), self._learned(), self._factors)

    def load_factors(self: Learning, path: str | os.PathLike[str]) -> None:
        """Loads a file of `save_factors` or PEFT. Raises SourceError, and changes nothing then."""
        learned = {name: tensor.type for name, tensor in self._tensors.items() if tensor.learns}
        factors = weights.read_factors(Path(path), learned, self._factors)
        self.restore({**self.state(), **with_averages(factors, self._tensors)})

    @property
    def parts(self: Learning) -> dict[str, Callable[[Path], None]]:
        """Writers of the files of LoRA factors of a run, by file name."""
        return weights.factor_files(self._learned, self._factors, self.averages)
