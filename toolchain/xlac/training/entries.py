"""The models of training as programs: their sizes, and the state that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac.ir.text import show
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.runtime.compiled import Compiled
from xlac.support.digest import digest
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, SourceError

ALIGNMENT = 64  # bytes


@dataclass(frozen=True, eq=False)
class TrainingEntry:
    """One of the models of training, and where its calls show the sizes that are open: by input,
    axis and size.
    """

    model: Model
    inputs: tuple[str, ...]
    shown: tuple[tuple[str, int, str], ...]
    usual: Mapping[str, int]

    @staticmethod
    def of(model: Model) -> TrainingEntry:
        """A model as an entry."""
        shown = [
            (param(node).name, axis, str(size))
            for node in model.inputs
            for axis, size in enumerate(node.shape)
            if str(size) in model.dims
        ]
        usual = {name: symbol.opt for name, symbol in model.dims.items()}
        return TrainingEntry(model, tuple(param(n).name for n in model.inputs), tuple(shown), usual)

    def sizes(self, given: Mapping[str, Array]) -> dict[str, int]:
        """The open sizes of a call; what does not fit them is left to the program to say."""
        found = dict(self.usual)
        for name, axis, size in reversed(self.shown):
            if name in given and given[name].ndim > axis:
                found[size] = given[name].shape[axis]
        return found


def slot_of(program: Program, name: str) -> Slot:
    """The slot of a tensor of the state."""
    return next(s for s in program.slots if s.role is Role.STATE and s.name == name)


def states(program: Program) -> list[Slot]:
    """The slots of the state, those of scratch memory among them, in the order of the program."""
    return [slot for slot in program.slots if slot.role is Role.STATE]


def aligned(nbytes: int) -> Array:
    """Zeros that begin at a multiple of what a program's state is placed at."""
    block = np.zeros(nbytes + ALIGNMENT, np.uint8)
    at = -block.ctypes.data % ALIGNMENT
    return block[at : at + nbytes]


def state_block(program: Program, state: Mapping[str, Array]) -> Array:
    """The bytes of a program's state that hold these tensors; zeros where there are none."""
    block = np.zeros(program.state_bytes, np.uint8)
    for slot in program.slots:
        if slot.role is Role.STATE and slot.name in state:
            array = np.ascontiguousarray(state[slot.name]).reshape(-1)
            block[slot.offset : slot.offset + slot.nbytes] = array.view(np.uint8)
    return block


def shared_bytes(program: Compiled) -> int:
    """The bytes of the state block that hold what is learned: scratch memory lies behind it."""
    named = [s for s in program.program.slots if s.role is Role.STATE and s.name]
    return max((s.offset + s.nbytes for s in named), default=0)


def fingerprint(model: Model, accumulate: int) -> str:
    """A hash of the graph of a step: of the model, its loss and its optimizer; and of how many
    micro-batches it has.
    """
    parts = [str(accumulate)] if accumulate > 1 else []
    return digest(show(model.graph), *sorted(model.state), *parts)[:32]


def checked_state(state: Mapping[str, Any], types: Mapping[str, Type]) -> dict[str, Array]:
    """Copies of the arrays of a state. Raises SourceError for names, types or shapes that do not
    fit.
    """
    missing = [name for name in types if name not in state]
    extra = [name for name in state if name not in types]
    if missing or extra:
        told = ", ".join([*(f"{n} is missing" for n in missing[:5]), *(f"{n} is unknown" for n in extra[:5])])  # fmt: skip
        raise SourceError(Diagnostic("XL3020", f"this is the state of another model: {told}"))
    found: dict[str, Array] = {}
    for name, type in types.items():
        array = np.asarray(state[name])
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            problem = f"{name} is {array.dtype}{list(array.shape)}, and the model keeps {type}"
            raise SourceError(Diagnostic("XL3020", problem))
        found[name] = np.array(array)
    return found
