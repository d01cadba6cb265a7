"""What lowerings hand to the memory planner: the launches of a group, before memory is planned."""

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
    """Memory that a lowered group needs between its own launches; the planner places it in the
    arena.

    `persistent` memory is zero at first and the group's own from call to call.
    """

    dtype: DType
    size: Dim  # elements
    hint: str = "scratch"
    persistent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class PackedConstant:
    """A constant computed at compile time from other constants (prepacked weights, say).

    `key` names the transformation, so that equal packings of one source are made once.
    """

    dtype: DType
    size: int
    sources: tuple[Node, ...]
    make: Callable[..., Array]
    key: str


Value = Node | Scratch | PackedConstant


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One kernel launch of a lowered group, before memory is planned: a value for each parameter
    and size.

    `backward` makes the kernel that goes through its largest constant from the end to the start,
    where there is one.
    """

    kernel: Kernel
    arguments: tuple[Value, ...]
    sizes: tuple[Sym, ...] = ()
    backward: Callable[[], Kernel] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCall:
    """A whole group as one operation of the target's own: a `Call` before memory is planned.

    Arguments are dense and row-major, each of its shape: what is read, the outputs, memory to be
    used meanwhile.
    """

    name: str
    arguments: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    attributes: Mapping[str, object]
    work: Work


@dataclass(frozen=True, slots=True)
class BufferCopy:
    """The target begins as a copy of the source; nothing to do when the planner gives them one
    memory.
    """

    source: Node
    target: Value


@dataclass(frozen=True, slots=True, eq=False)
class LoweredGroup:
    """The launches that compute the outputs of a group, and the copies that are made before the
    first of them.

    `in_place` lists (output, input) pairs that may share memory: each element of the input is read
    only before, or in the same step as, the output's element of the same index is written. `call`
    stands in place of launches; `note` says, where there was a choice between kernels and a
    library, how it fell and why. `schedules` are what the kernels were written from, by part.
    """

    launches: tuple[KernelLaunch, ...]
    in_place: tuple[tuple[Node, Node], ...] = ()
    copies: tuple[BufferCopy, ...] = ()
    call: LibraryCall | None = None
    note: str = ""
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    @property
    def alone(self) -> tuple[KernelLaunch, ...]:
        """The launches, for a lowering of more than this: there are no copies to make before, and
        no call in their place.
        """
        if self.copies or self.call is not None:
            raise AssertionError("a lowering that is part of another has more than launches")
        return self.launches


@dataclass(frozen=True, slots=True)
class LowerPart:
    """Lowers a part of a group, as a group of its own, under a name of its own.

    Every lowering is given one, which finds the lowering of the part's kind: so no lowering imports
    another. `decisions` are those of the whole group: every lowering settles its schedule there.
    """

    lower: Callable[[Group, Target, str, Decisions], LoweredGroup]
    decisions: Decisions

    def __call__(self, group: Group, target: Target, name: str) -> LoweredGroup:
        return self.lower(group, target, name, self.decisions)
