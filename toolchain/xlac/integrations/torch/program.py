"""Calls a compiled model with PyTorch's tensors, without copies of dense inputs and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from xlac.frontends.torch.tensors import COMPLEX, TORCH, array_of
from xlac.integrations.torch.views import ViewGeometry
from xlac.ir.dims import Dim, Shape, Sym, static, substitute
from xlac.ir.permutations import Perm
from xlac.model import Model
from xlac.runtime.compiled import Compiled
from xlac.runtime.programs import Programs
from xlac.runtime.specialization import Specializing, solve
from xlac_sdk.dtypes import DType

SEED = 3  # u64 words of the state of random operations


@dataclass(frozen=True, slots=True)
class TorchInput:
    """A tensor argument: its position, the model's input that takes it, the order of its axes
    there, and whether it has open sizes.
    """

    position: int
    name: str
    perm: Perm | None
    symbolic: bool


@dataclass(frozen=True, slots=True)
class Output:
    """A result computed by the model: the output's name, dtype and shape, and the permutation
    `back` to PyTorch's order of axes. Of a `complex` one dtype and shape are those of a part.
    """

    name: str
    dtype: DType
    shape: Shape
    back: Perm | None
    place: ViewGeometry | None = None  # of a result that has gaps in PyTorch
    complex: bool = False

    @property
    def element(self) -> torch.dtype:
        """PyTorch's element type."""
        return (COMPLEX if self.complex else TORCH)[self.dtype]


@dataclass(frozen=True, slots=True)
class PassedArgument:
    """A result that is an argument itself."""

    position: int


@dataclass(frozen=True, slots=True)
class ViewOfMemory:
    """A result that is a view of an output or of an argument with the given strides."""

    base: Output | PassedArgument
    strides: tuple[Dim, ...]  # of the base
    geometry: ViewGeometry


Result = Output | PassedArgument | ViewOfMemory | Dim | float | bool | None


class TensorProgram:
    """A function from the list of a graph's arguments, tensors and numbers, to the tuple of its
    results.

    For a model with open sizes, a FixedSizeProgram is made and cached for each set of shapes.
    """

    def __init__(
        self,
        model: Model,
        compiled: Compiled | Specializing,
        inputs: Sequence[TorchInput],
        results: Sequence[Result],
        seed: str = "",
    ) -> None:
        self.model, self.compiled = model, compiled
        self.inputs, self.results, self.seed = tuple(inputs), tuple(results), seed
        self._programs: Programs[FixedSizeProgram] = Programs()
        self._open = tuple(i for i in self.inputs if i.symbolic)
        self._fixed = (
            None
            if self._open or isinstance(compiled, Specializing)
            else self._at_sizes(compiled, {})
        )

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        if self._fixed is not None:
            return self._fixed(args)
        shapes = tuple(tuple(args[i.position].shape) for i in self._open)
        return self._programs.get(shapes, lambda: self._specialized(args))(args)

    def _specialized(self, args: list[Any]) -> FixedSizeProgram:
        given = {i.name: array_of(_permuted(args[i.position], i.perm)) for i in self.inputs}
        if self.seed:
            given[self.seed] = array_of(seed_tensor())
        sizes = solve(self.model.inputs, {name: array.shape for name, array in given.items()})
        open_ = self.compiled
        return self._at_sizes(
            open_.specialize(given) if isinstance(open_, Specializing) else open_, sizes
        )

    def _at_sizes(self, compiled: Compiled, sizes: dict[str, int]) -> FixedSizeProgram:
        programs: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
        for result in self.results:
            output = result.base if isinstance(result, ViewOfMemory) else result
            if isinstance(output, Output):
                programs[output.name] = _extents(output.shape, sizes), output.element
        results = [_fixed(r, sizes) for r in self.results]
        return FixedSizeProgram(compiled, sizes, self.inputs, programs, results, self.seed)


def _fixed(result: Result, sizes: dict[str, int]) -> Result:
    """A result at the sizes of a call."""
    match result:
        case Sym():
            return substitute(result, sizes)
        case ViewOfMemory(base, strides, geometry):
            return ViewOfMemory(
                base, _extents(strides, sizes), geometry.fixed(lambda dims: _extents(dims, sizes))
            )
        case Output(place=ViewGeometry() as place):
            return replace(result, place=place.fixed(lambda dims: _extents(dims, sizes)))
    return result


def _extents(shape: Shape, sizes: dict[str, int]) -> tuple[int, ...]:
    return static(tuple(substitute(d, sizes) for d in shape))


class FixedSizeProgram:
    """A program at fixed sizes. A call passes the addresses of inputs and of newly allocated
    outputs, and does nothing else that could be done before.
    """

    def __init__(
        self,
        compiled: Compiled,
        sizes: dict[str, int],
        inputs: Sequence[TorchInput],
        outputs: dict[str, tuple[tuple[int, ...], torch.dtype]],
        results: Sequence[Any],
        seed: str,
    ) -> None:
        by_name = {i.name: i for i in inputs}
        order = [by_name.get(slot.name) for slot in compiled.program.inputs]  # None: the seed
        self._inputs = [(-1, None) if i is None else (i.position, i.perm) for i in order]
        self._names = [slot.name for slot in compiled.program.inputs]
        self._outputs = [(slot.name, *outputs[slot.name]) for slot in compiled.program.outputs]
        self._sizes = [sizes[symbol.name] for symbol in compiled.program.sizes]
        numbers = {name: number for number, (name, *_) in enumerate(self._outputs)}
        self._results = [_result_maker(r, numbers) for r in results]
        self._compiled, self._at = compiled, compiled.at

    def __call__(self, args: list[Any]) -> tuple[Any, ...]:
        given = [dense(args[at], perm) if at >= 0 else seed_tensor() for at, perm in self._inputs]
        results = [torch.empty(shape, dtype=dtype) for _, shape, dtype in self._outputs]
        if self._at is not None:
            self._at(
                [*[t.data_ptr() for t in given], *[t.data_ptr() for t in results], *self._sizes]
            )
        else:
            self._compiled.run(
                {name: array_of(t) for name, t in zip(self._names, given, strict=True)},
                {name: array_of(t) for (name, *_), t in zip(self._outputs, results, strict=True)},
            )
        return tuple([_result(r, results, args) for r in self._results])


def dense(tensor: torch.Tensor, perm: Perm | None) -> torch.Tensor:
    """A tensor in the memory order that the program reads; a copy where it differs from the
    example's order, or is a negative view or a conjugate one.
    """
    laid = tensor if perm is None else tensor.permute(perm)
    if laid.is_contiguous() and not laid.is_neg() and not laid.is_conj():
        return laid
    return laid.detach().resolve_neg().resolve_conj().contiguous()


def _permuted(tensor: torch.Tensor, perm: Perm | None) -> torch.Tensor:
    return tensor if perm is None else tensor.permute(perm)


def _result_maker(result: Any, numbers: dict[str, int]) -> Any:
    """How a call makes a result: the number of an output and the order of its axes, a function of
    outputs and arguments, or a constant.
    """
    match result:
        case Output(name, back=back, place=None):
            return numbers[name], back
        case Output(name, place=ViewGeometry() as place):
            return lambda results, args: place.copied(results[numbers[name]])
        case ViewOfMemory(Output(name), _, geometry):
            return lambda results, args: geometry.of(results[numbers[name]])
        case ViewOfMemory(PassedArgument(position), strides, geometry):
            expected = static(strides)
            return lambda results, args: geometry.of(_with_strides(args[position], expected))
        case PassedArgument(position):
            return lambda results, args: args[position]
    return result


def _result(result: Any, results: list[torch.Tensor], args: list[Any]) -> Any:
    if type(result) is tuple:
        number, back = result
        return results[number] if back is None else results[number].permute(back)
    return result(results, args) if callable(result) else result


def _with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """An argument with the example's strides: a copy where it has others."""
    if tensor.stride() == strides:
        return tensor
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def seed_tensor() -> torch.Tensor:
    """A seed, u64[3], from PyTorch's default generator, so that `torch.manual_seed` decides all
    random numbers.
    """
    return torch.randint(-(1 << 63), (1 << 63) - 1, (SEED,), dtype=torch.int64).view(torch.uint64)
