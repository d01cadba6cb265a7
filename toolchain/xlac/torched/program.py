"""A compiled model called with tensors: nothing is copied on the way in or out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from xlac.compiled import Compiled
from xlac.frontends.torch.tensors import TORCH, array_of
from xlac.ir.dims import Dim, Shape, Sym, substitute
from xlac.model import Model
from xlac.programs import Programs
from xlac.sizes import Specializing, solve
from xlac.torched.layout import Perm
from xlac_sdk.dtypes import DType

SEED = 3  # words of the state that random operations start from


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor argument: its position, the input of the model that takes it, and the order of its axes there."""

    position: int
    name: str
    perm: Perm | None
    symbolic: bool


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that the model computes: its output, and the order that gives back its axes."""

    name: str
    dtype: DType
    shape: Shape
    back: Perm | None


@dataclass(frozen=True, slots=True)
class Passed:
    """An argument that is a result as it is."""

    position: int


Result = Output | Passed | Dim | float | bool | None


class TensorProgram:
    """Takes the arguments of a graph as a list of tensors and numbers, gives its results as a tuple.

    The results of a model with open sizes are found for each set of shapes that is met.
    """

    def __init__(
        self, model: Model, compiled: Compiled | Specializing, inputs: Sequence[Input], results: Sequence[Result], seed: str = "",
    ) -> None:  # fmt: skip
        self.model, self.compiled = model, compiled
        self.inputs, self.results, self.seed = tuple(inputs), tuple(results), seed
        self._programs: Programs[Callable[[list[Any]], tuple[Any, ...]]] = Programs()
        self._open = tuple(i for i in self.inputs if i.symbolic)
        self._fixed = None if isinstance(compiled, Specializing) else self._call(compiled, {})

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        if self._fixed is not None:
            return self._fixed(args)
        shapes = tuple(tuple(args[i.position].shape) for i in self._open)
        return self._programs.get(shapes, lambda: self._specialized(args))(args)

    def _specialized(self, args: list[Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
        assert isinstance(self.compiled, Specializing)
        given = {i.name: array_of(_laid(args[i.position], i.perm)) for i in self.inputs}
        if self.seed:
            given[self.seed] = array_of(seed_tensor())
        sizes = solve(self.model.inputs, {name: array.shape for name, array in given.items()})
        return self._call(self.compiled.specialize(given), sizes)

    def _call(self, compiled: Compiled, sizes: dict[str, int]) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The call for fixed sizes."""
        made = {}
        for result in self.results:
            if isinstance(result, Output) and result.name not in made:
                shape = tuple(substitute(d, sizes) for d in result.shape)
                made[result.name] = (shape, TORCH[result.dtype])
        results = [substitute(r, sizes) if isinstance(r, Sym) else r for r in self.results]
        inputs, seed = self.inputs, self.seed

        def call(args: list[Any]) -> tuple[Any, ...]:
            given = {i.name: array_of(_laid(args[i.position], i.perm)) for i in inputs}
            if seed:
                given[seed] = array_of(seed_tensor())
            outputs = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in made.items()}
            compiled.run(given, {name: array_of(tensor) for name, tensor in outputs.items()})
            return tuple(_result(r, outputs, args) for r in results)

        return call


def _laid(tensor: torch.Tensor, perm: Perm | None) -> torch.Tensor:
    return tensor if perm is None else tensor.permute(perm)


def _result(result: Any, outputs: dict[str, torch.Tensor], args: list[Any]) -> Any:
    if isinstance(result, Output):
        found = outputs[result.name]
        return found if result.back is None else found.permute(result.back)
    return args[result.position] if isinstance(result, Passed) else result


def seed_tensor() -> torch.Tensor:
    """A fresh seed from PyTorch's default generator, so that `torch.manual_seed` decides all that is drawn."""
    return torch.randint(-(1 << 63), (1 << 63) - 1, (SEED,), dtype=torch.int64).view(torch.uint64)
