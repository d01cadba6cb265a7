"""Entries of training (step, evaluate, run): the open sizes of a call, and the shared state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.ir.text import show
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.runtime.compiled import Compiled
from xlac.support.digest import digest
from xlac_sdk.host.fresh_memory import zeroed
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, SourceError

ALIGNMENT = 64  # bytes


@dataclass(frozen=True, eq=False)
class TrainingEntry:
    """A model of training. `size_sources` are (input, axis, open size): the axes of inputs from
    which a call's open sizes are read; `default_sizes` apply where none shows a size.
    """

    model: Model
    inputs: tuple[str, ...]
    size_sources: tuple[tuple[str, int, str], ...]
    default_sizes: Mapping[str, int]

    @staticmethod
    def of(model: Model) -> TrainingEntry:
        """The entry of a model; the default of an open size is its `opt`."""
        size_sources = [
            (param(node).name, axis, str(size))
            for node in model.inputs
            for axis, size in enumerate(node.shape)
            if str(size) in model.dims
        ]
        default_sizes = {name: symbol.opt for name, symbol in model.dims.items()}
        return TrainingEntry(
            model, tuple(param(n).name for n in model.inputs), tuple(size_sources), default_sizes
        )

    def sizes(self, given: Mapping[str, Array]) -> dict[str, int]:
        """The open sizes of a call, from the shapes of its arrays. Inconsistent shapes are not an
        error here: the program refuses them.
        """
        sizes = dict(self.default_sizes)
        for name, axis, size in reversed(self.size_sources):
            if name in given and given[name].ndim > axis:
                sizes[size] = given[name].shape[axis]
        return sizes


def slot_of(program: Program, name: str) -> Slot:
    """The slot of a state tensor, by its name."""
    return next(s for s in program.slots if s.role is Role.STATE and s.name == name)


def states(program: Program) -> list[Slot]:
    """The state slots of a program in its order, with the unnamed ones that are scratch memory."""
    return [slot for slot in program.slots if slot.role is Role.STATE]


def aligned(nbytes: int) -> Array:
    """Zeroed bytes, u8, aligned as a program requires of its state (`ALIGNMENT`)."""
    block = zeroed(nbytes + ALIGNMENT)
    at = -block.ctypes.data % ALIGNMENT
    return block[at : at + nbytes]


def state_block(program: Program, state: Mapping[str, Array]) -> Array:
    """A program's state block, u8[state_bytes], filled from tensors by name; zeros elsewhere."""
    block = np.zeros(program.state_bytes, np.uint8)
    for slot in program.slots:
        if slot.role is Role.STATE and slot.name in state:
            array = np.ascontiguousarray(state[slot.name]).reshape(-1)
            block[slot.offset : slot.offset + slot.nbytes] = array.view(np.uint8)
    return block


def shared_bytes(program: Compiled) -> int:
    """The length in bytes of the part of the state block that programs share: named tensors come
    first, scratch memory of the one program after them.
    """
    named = [s for s in program.program.slots if s.role is Role.STATE and s.name]
    return max((s.offset + s.nbytes for s in named), default=0)


def step_inputs(run: Model, spec: Graph, steps: Iterable[Model]) -> dict[str, Type]:
    """The types of the inputs of a step, which is the calls of `steps`, by name: first those of the
    model, as `run` has them, then those that only training has; each in the order of the `spec`.
    The functions of `xlac build` take theirs so, too.
    """
    taken = {param(node).name: node.type for model in steps for node in model.inputs}
    ordered = dict.fromkeys(param(node).name for node in (*run.inputs, *spec.inputs))
    return {name: taken[name] for name in ordered if name in taken}


def fingerprint(steps: Iterable[Model], accumulate: int) -> str:
    """A hash of the graphs of a step (model, losses and optimizers) and its number of
    micro-batches.
    """
    parts = [part for model in steps for part in (show(model.graph), *sorted(model.state))]
    return digest(*parts, *([str(accumulate)] if accumulate > 1 else []))[:32]


def checked_state(state: Mapping[str, Any], types: Mapping[str, Type]) -> dict[str, Array]:
    """Copies of the arrays of a state. Raises SourceError where names, dtypes or shapes are not
    exactly those of `types`.
    """
    missing = [name for name in types if name not in state]
    extra = [name for name in state if name not in types]
    if missing or extra:
        differences = ", ".join(
            [*(f"{n} is missing" for n in missing[:5]), *(f"{n} is unknown" for n in extra[:5])]
        )
        raise SourceError(
            Diagnostic("XL3020", f"this is the state of another model: {differences}")
        )
    copies: dict[str, Array] = {}
    for name, type in types.items():
        array = np.asarray(state[name])
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            problem = f"{name} is {array.dtype}{list(array.shape)}, and the model keeps {type}"
            raise SourceError(Diagnostic("XL3020", problem))
        copies[name] = np.array(array)
    return copies
