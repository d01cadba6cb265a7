"""A program: steps that launch kernels, host control flow, and one arena in which every buffer's
place is planned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from xlac_sdk.dims import Dim, Shape, Symbol, evaluate, upper_bound, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

if TYPE_CHECKING:  # lazily imported: a program that is only called needs no kernels and no steps
    from xlac_sdk.kernel_ir.kernel import Kernel, Work
    from xlac_sdk.programs.entries import Entries
    from xlac_sdk.programs.steps import (
        Argument,
        Branch,
        Call,
        Case,
        Choice,
        CollectiveDone,
        CollectiveStart,
        Copy,
        Launch,
        RankExchange,
        Repeat,
        Stamp,
        Step,
        While,
        arguments,
        exchanges,
        touched,
        walk,
    )

__all__ = [
    "Argument",
    "Branch",
    "Call",
    "Case",
    "Choice",
    "CollectiveDone",
    "CollectiveStart",
    "Copy",
    "Launch",
    "Program",
    "RankExchange",
    "Repeat",
    "Role",
    "Slot",
    "Stamp",
    "Step",
    "While",
    "arguments",
    "exchanges",
    "touched",
    "walk",
]  # fmt: skip


class Role(Enum):
    """The owner of a slot's memory."""

    INPUT = "input"  # the caller's, read-only
    OUTPUT = "output"  # the caller's, written
    CONSTANT = "constant"  # weights and folded values, read-only
    STATE = "state"  # kept by the program between calls
    TEMPORARY = "temporary"  # a range of the arena


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A range of memory that steps refer to. Compared by identity.

    `name` is the user's name of an input, output or constant (any text); `symbol` is an identifier
    unique in the program, the only name that may reach generated code. `offset` is in bytes into
    the arena (temporaries) or the state block (state).
    """

    name: str
    symbol: str
    dtype: DType
    shape: Shape
    role: Role
    offset: int = 0
    align: int = 64
    origin: Origin | None = None

    @property
    def label(self) -> str:
        """The name in messages: the user's if there is one, else that of the node it belongs to."""
        if self.name or self.origin is None:
            return f"'{self.name or self.symbol}'"
        return f"the scratch memory of '{self.origin.name}'"

    @property
    def elements(self) -> Dim:
        """The number of elements, over the program's sizes."""
        return volume(self.shape)

    @property
    def size(self) -> int:
        """The number of elements; for symbolic sizes, the maximum."""
        return upper_bound(self.elements)

    @property
    def nbytes(self) -> int:
        """Bytes of `size` elements."""
        return self.size * self.dtype.nbytes

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for given sizes."""
        return tuple(evaluate(extent, sizes) for extent in self.shape)


RECORD = "record"
"""The fact of a checked program whose record is in its arena (`xlac_sdk.host.records`)."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Program:
    """The input of a backend. Inputs and outputs are in the order of the model's declaration.

    `constants` has the data of every CONSTANT slot, by symbol; arrays may be memory-mapped. `sizes`
    are the sizes that each call chooses (by the shapes of its inputs), within their bounds: extents
    of slots, counts and offsets of steps, and sizes of kernels are expressions over them. Memory
    offsets are not: temporaries are placed for the maximal sizes.
    """

    name: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    slots: tuple[Slot, ...]
    steps: tuple[Step, ...]
    constants: Mapping[str, NDArray[Any]]
    arena_bytes: int = 0
    state_bytes: int = 0
    sizes: tuple[Symbol, ...] = ()
    # for the manifest: flops, parameters, hashes
    facts: Mapping[str, Any] = field(default_factory=dict)
    # further functions over the same memory; most programs have none
    entries: Entries | None = None

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel once, in the order of first use."""
        from xlac_sdk.programs.steps import Launch, walk

        kernels: dict[Kernel, None] = {}
        for step in walk(self.every_step):
            if isinstance(step, Launch):
                kernels.setdefault(step.kernel)
        return tuple(kernels)

    @property
    def every_step(self) -> tuple[Step, ...]:
        """The steps of the program and of all its entries."""
        if self.entries is None:
            return self.steps
        more = (step for entry in self.entries.entries for step in entry.steps)
        return (*self.steps, *self.entries.first, *more)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The combinations of sizes with their own steps, in the order in which they are tested."""
        from xlac_sdk.programs.steps import Choice, walk

        return tuple(
            case for step in walk(self.steps) if isinstance(step, Choice) for case in step.cases
        )

    @property
    def work(self) -> Work:
        """The work of a call: arithmetic, and bytes moved without any caching.

        A loop of unknown length counts once, of branches the one with the most work, and sizes are
        those to optimise for.
        """
        from xlac_sdk.programs.steps import work

        return work(self.steps)


def alignment_of(program: Program) -> int:
    """The bytes of which the places of temporaries are multiples."""
    return max((s.align for s in program.slots if s.role is Role.TEMPORARY), default=64)


def __getattr__(name: str) -> Any:
    """The classes of steps, importable from here too; loaded on first use, since a cached program
    does not need them.
    """
    if name.startswith("_"):
        raise AttributeError(name)
    from xlac_sdk.programs import steps

    return getattr(steps, name)
