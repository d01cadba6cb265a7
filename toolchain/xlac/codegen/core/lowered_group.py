"""The result of lowering a group: its launches, before memory is planned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.schedule import Schedule
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, Shape, Sym
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Kernel, Work
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Memory that a lowered group needs between its launches; the planner allocates it in the
    arena.

    `persistent` memory is initialized to zero and keeps its contents between calls.
    """

    dtype: DType
    size: Dim  # elements
    hint: str = "scratch"
    persistent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PackedConstant:
    """A constant computed at compile time from other constants (such as prepacked weights).

    `key` identifies the transformation, so that equal packings of one source are shared.
    """

    dtype: DType
    size: int
    sources: tuple[Node, ...]
    make: Callable[..., Array]
    key: str


@dataclass(frozen=True, slots=True)
class FoldedOperand:
    """How an operand is computed from constants when they are packed.

    `compute` takes the elements of its main source, then those of `others`; `key` identifies the
    computation. Neither holds elements, so that groups of equal structure may share it.
    """

    compute: Callable[..., Array]
    key: str
    others: tuple[Node, ...] = ()


Value = Node | Scratch | PackedConstant


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One kernel launch, before memory is planned: a value for each parameter and size.

    `backward` makes a variant of the kernel that reads its largest constant from the end to the
    start, if there is one.
    """

    kernel: Kernel
    arguments: tuple[Value, ...]
    sizes: tuple[Sym, ...] = ()
    backward: Callable[[], Kernel] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCall:
    """A whole group as one operation of the target's library: a `Call` before memory is planned.

    Arguments are dense and row-major, with their shapes: inputs, outputs, workspace.
    """

    name: str
    arguments: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    attributes: Mapping[str, object]
    work: Work


@dataclass(frozen=True, slots=True)
class BufferCopy:
    """The target is initialized with a copy of the source; a no-op if the planner gives both the
    same memory.
    """

    source: Node
    target: Value


@dataclass(frozen=True, slots=True, eq=False)
class LoweredGroup:
    """The launches that compute the outputs of a group, and the copies made before the first of
    them.

    `in_place` lists (output, input) pairs that may share memory: each element of the input is read
    only before, or in the same step as, the output's element of the same index is written. `call`
    replaces the launches; `note` explains a choice between kernels and a library. `schedules` are
    those from which the kernels were written, by part.
    """

    launches: tuple[KernelLaunch, ...]
    in_place: tuple[tuple[Node, Node], ...] = ()
    copies: tuple[BufferCopy, ...] = ()
    call: LibraryCall | None = None
    note: str = ""
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    @property
    def alone(self) -> tuple[KernelLaunch, ...]:
        """The launches, for a lowering of a larger group; there must be no copies and no library
        call.
        """
        if self.copies or self.call is not None:
            raise AssertionError("a lowering that is part of another must consist of launches only")
        return self.launches


@dataclass(frozen=True, slots=True)
class LowerPart:
    """Lowers a part of a group, as a group of its own with its own name.

    Every lowering is passed one, so that lowerings need not import each other. `decisions` are
    those of the whole group, in which every lowering settles its schedule.
    """

    lower: Callable[[Group, Target, str, Decisions], LoweredGroup]
    decisions: Decisions

    def __call__(self, group: Group, target: Target, name: str) -> LoweredGroup:
        return self.lower(group, target, name, self.decisions)
