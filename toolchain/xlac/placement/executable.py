"""Runs the stages of a model as one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import chain
from math import prod
from threading import Lock
from typing import Any, Protocol, cast

import numpy as np

from xlac.placement.call_order import CallOrder, one_after_the_other
from xlac.placement.perform import StagePerformer
from xlac.placement.stage_models import StageValues
from xlac.placement.verify_order import verify_order
from xlac.placement.whole_program import state_offsets
from xlac_sdk.backend import Executable, Overlapping
from xlac_sdk.dims import evaluate, static
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.calls.in_flight import call
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.programs.sizes import of_call

SPARE = 4  # sets of arrays that wait for the next call, at most


class CompiledStage(Protocol):
    """A stage that was compiled for its device."""

    whole: Program
    executable: Executable

    def reset(self) -> None:
        """Sets its state to zero."""


class StagedExecutable:
    """The stages of a model, each on its device, called in an order in which copies and stages may
    pass at once: values pass through arrays of the host. Its state block is that of
    `whole_program`.

    Calls of a model without state whose stages are called in turn may overlap; each has its own
    arrays. Others take turns.
    """

    def __init__(
        self,
        program: Program,
        values: StageValues,
        stages: Sequence[CompiledStage],
        order: CallOrder | None = None,
    ) -> None:
        self.program, self.values, self.stages = program, values, tuple(stages)
        self.order = one_after_the_other(len(self.stages)) if order is None else order
        verify_order(values, self.order)
        self._codes = [stage.executable for stage in self.stages]
        self._performer = StagePerformer(self.order, values, self._codes)
        self._offsets = state_offsets([stage.whole for stage in stages])
        self._held: dict[str, Array] = {
            s.name: np.zeros(static(s.type.shape), s.type.dtype.numpy) for s in values.held
        }
        self._slots = [
            s for s in self.program.slots if s.role is Role.STATE and s.name in self._held
        ]
        self._turn: AbstractContextManager[Any] = (
            nullcontext() if self.order.in_turn and not self.program.state_bytes else Lock()
        )
        # the stages by whose devices a value is copied
        self._touching: dict[int, list[int]] = {}
        for stage in sorted(self.order.overlapping):
            for number in chain.from_iterable(part.values() for part in values.stages[stage]):
                self._touching.setdefault(number, []).append(stage)
        # arrays of values between stages that no call uses now, all of these sizes
        self._spare: tuple[tuple[int, ...], list[dict[int, Array]]] = ((), [])

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Calls the stages. An error of one ends the call; the state may then be that of before in
        some stages, and of after in others.
        """
        sizes = of_call(self.program, inputs)
        with self._turn:
            own = self._taken(sizes)
            values = self._arrays(inputs, outputs, own)
            if self.order.in_turn:
                for one in self._calls(values):
                    call(*one)
            else:
                self._performer.run(values)
            for state in self.values.held:
                np.copyto(self._held[state.name], values[state.after])
            self._leave(sizes, own)

    def stage_calls(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]
    ) -> list[Callable[[], None]]:
        """A call of each stage alone, with its arrays of a call of all: to measure them."""
        with self._turn:
            own = self._taken(of_call(self.program, inputs))
            calls = list(self._calls(self._arrays(inputs, outputs, own)))
            for one in calls:
                call(*one)
        return [partial(call, *one) for one in calls]

    def _arrays(
        self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], own: Mapping[int, Array]
    ) -> dict[int, Array]:
        """The arrays of a call by the numbers of their values."""
        numbers = self.values
        arrays = {number: inputs[name] for name, number in numbers.inputs.items()}
        arrays |= {number: outputs[name] for name, number in numbers.outputs.items()}
        arrays |= {state.before: self._held[state.name] for state in numbers.held}
        return {**arrays, **own}

    def _calls(
        self, arrays: Mapping[int, Array]
    ) -> Iterator[tuple[Executable, dict[str, Array], dict[str, Array]]]:
        """What each stage is called with."""
        for (reads, writes), stage in zip(self.values.stages, self.stages, strict=True):
            given = {name: arrays[number] for name, number in reads.items()}
            yield stage.executable, given, {name: arrays[n] for name, n in writes.items()}

    def _taken(self, sizes: Mapping[str, int]) -> dict[int, Array]:
        """Arrays for the values between stages, which no other call uses."""
        key = tuple(sizes.values())
        of, spare = self._spare
        if of == key:
            try:
                return spare.pop()
            except IndexError:  # other calls have them
                pass
        arrays: dict[int, Array] = {
            number: self._array(number, tuple(evaluate(d, sizes) for d in type.shape), type.dtype)
            for number, type in self.values.between.items()
        }
        told = self.values.sizes.items()
        return arrays | {number: np.zeros(sizes[one.name], np.bool_) for number, one in told}

    def _array(self, number: int, shape: tuple[int, ...], dtype: DType) -> Array:
        """An array for a value between stages, in memory of a device that copies it, if that has
        some.
        """
        nbytes = prod(shape) * dtype.nbytes
        for stage in self._touching.get(number, ()) if nbytes else ():
            memory = cast(Overlapping, self._codes[stage]).host_memory(nbytes)
            if memory is not None:
                return memory[:nbytes].view(dtype.numpy).reshape(shape)
        return np.empty(shape, dtype.numpy)

    def _leave(self, sizes: Mapping[str, int], arrays: dict[int, Array]) -> None:
        """Keeps arrays for the next call."""
        key = tuple(sizes.values())
        if self._spare[0] != key:
            self._spare = (key, [])
        if len(self._spare[1]) < SPARE:
            self._spare[1].append(arrays)

    def reset(self) -> None:
        """Sets the state of all stages, and what the host holds, to zero."""
        with self._turn:
            for stage in self.stages:
                stage.reset()
            for array in self._held.values():
                array[...] = 0

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """A copy of bytes of the state block."""
        with self._turn:
            block = self._block()
        return block[start:stop].copy()

    def write_state(self, block: Array, start: int = 0) -> None:
        """Overwrites bytes of the state block."""
        with self._turn:
            whole = self._block()
            whole[start : start + block.size] = block
            for stage, first in zip(self.stages, self._offsets, strict=False):
                if stage.whole.state_bytes:
                    part = whole[first : first + stage.whole.state_bytes]
                    stage.executable.write_state(part)
            for slot in self._slots:
                part = whole[slot.offset : slot.offset + slot.nbytes]
                self._held[slot.name].reshape(-1).view(np.uint8)[:] = part

    def _block(self) -> Array:
        """The state block, read from all stages."""
        whole = np.zeros(self.program.state_bytes, np.uint8)
        for stage, first in zip(self.stages, self._offsets, strict=False):
            if stage.whole.state_bytes:
                part = stage.executable.read_state()
                whole[first : first + part.size] = part
        for slot in self._slots:
            held = self._held[slot.name].reshape(-1).view(np.uint8)
            whole[slot.offset : slot.offset + slot.nbytes] = held
        return whole
