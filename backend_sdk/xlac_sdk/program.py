"""A program: kernels in order, host steps, and one arena with every buffer's place known before running."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from xlac_sdk.dims import Dim, Shape, Sym, Symbol, at_opt, evaluate, most, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.products import Product
from xlac_sdk.source import Origin

if TYPE_CHECKING:  # what is only called needs no kernels
    from xlac_sdk.kernel import Kernel, Work


class Role(Enum):
    """Who provides the memory of a slot."""

    INPUT = "input"  # the caller's, only read
    OUTPUT = "output"  # the caller's, written
    CONSTANT = "constant"  # weights and folded values, only read
    STATE = "state"  # kept by the context between calls
    TEMPORARY = "temporary"  # a stretch of the arena


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """A run of memory that steps refer to. Compared by identity.

    `name` is the user's for inputs, outputs and constants (any text); `symbol` is an identifier unique
    in the program, the only one that may reach generated code. `offset` is in bytes into the arena
    (temporaries) or the state block (state).
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
    def elements(self) -> Dim:
        """How many there are, over the program's sizes."""
        return volume(self.shape)

    @property
    def size(self) -> int:
        """Elements; where sizes are open, the most there can be."""
        return most(self.elements)

    @property
    def nbytes(self) -> int:
        """Bytes of as many elements."""
        return self.size * self.dtype.nbytes

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape for given sizes."""
        return tuple(evaluate(extent, sizes) for extent in self.shape)


@dataclass(frozen=True, slots=True)
class Argument:
    """A pointer into a slot: `offset + sum(counter * stride)` elements from its start."""

    slot: Slot
    offset: Dim = 0
    strides: tuple[tuple[str, Dim], ...] = ()  # (counter of an enclosing Repeat, elements a step)


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs a kernel; one argument for each of its parameters, in order.

    A kernel may be launched for several parts of a model: `origins` are those of this launch.
    """

    kernel: Kernel
    arguments: tuple[Argument, ...]
    sizes: tuple[Dim, ...] = ()
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies elements between slots of one dtype that do not overlap."""

    target: Argument
    source: Argument
    count: Dim


@dataclass(frozen=True, slots=True)
class Repeat:
    """Runs steps `count` times with `counter` = 0, 1, …; arguments inside may move with it."""

    counter: str
    count: Dim
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    """`loop: condition; if (!*flag) break; body`. The flag is one bool."""

    condition: tuple[Step, ...]
    flag: Argument
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs the branch whose number is the i32 at `index`; out of range runs the last."""

    index: Argument
    branches: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """Steps for the calls whose sizes have these values; those that are not named may have any."""

    sizes: tuple[tuple[Symbol, int], ...]
    steps: tuple[Step, ...]

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call with these sizes, by name, is one of them."""
        return all(sizes[symbol.name] == value for symbol, value in self.sizes)

    @property
    def title(self) -> str:
        """`batch=8, past=1024`"""
        return ", ".join(f"{symbol.name}={value}" for symbol, value in self.sizes)


@dataclass(frozen=True, slots=True)
class Choice:
    """Runs the steps of the first case that takes the sizes of the call, or else `otherwise`, which any call may run."""

    cases: tuple[Case, ...]
    otherwise: tuple[Step, ...]

    @property
    def paths(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of every case, and those of all other calls."""
        return (*(case.steps for case in self.cases), self.otherwise)

    def path(self, sizes: Mapping[str, int]) -> tuple[Step, ...]:
        """The steps for a call with these sizes, by name."""
        return next((case.steps for case in self.cases if case.takes(sizes)), self.otherwise)


@dataclass(frozen=True, slots=True)
class Call:
    """A whole operation that the target claimed (a library's matmul, say).

    Arguments are its inputs, then its results, then memory that it may use meanwhile, each of the shape in `shapes`,
    dense and row-major. Shapes and attributes may be said over the program's sizes.
    """

    name: str
    arguments: tuple[Argument, ...]
    shapes: tuple[Shape, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    work: Work | None = None

    def at(self, sizes: Mapping[str, int]) -> Call:
        """The same for one set of sizes, by name: shapes and attributes are known."""
        known = {name: _at(value, sizes) for name, value in self.attributes.items()}
        return replace(self, shapes=_at(self.shapes, sizes), attributes=known)


def _at(value: Any, sizes: Mapping[str, int]) -> Any:
    match value:
        case Sym():
            return evaluate(value, sizes)
        case tuple():
            return tuple(_at(part, sizes) for part in value)
        case Product():
            return value.at(sizes)
    return value


@dataclass(frozen=True, slots=True)
class Stamp:
    """Appends (code, time) to a log, for `xlac profile`; code 0 empties the log first.

    The log is a run of i64: how many entries it holds, then the entries, as many as fit. Time counts up at a steady
    rate that the reader finds out.
    """

    log: Argument
    code: int


Step = Launch | Copy | Repeat | While | Branch | Choice | Call | Stamp


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Program:
    """What a backend is given. Inputs and outputs are in the order of the model's declaration.

    `constants` holds the data of every CONSTANT slot, by symbol; arrays may be memory-mapped. `sizes` are the
    sizes that each call chooses (by the shapes of its inputs), within their bounds: extents of slots, counts and
    offsets of steps, and what kernels are launched with are said over them. Places in memory are not: temporaries
    lie where the largest fit.
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
    facts: Mapping[str, Any] = field(default_factory=dict)  # for the manifest: flops, parameters, hashes

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Every kernel once, in the order of first use."""
        found: dict[Kernel, None] = {}
        for step in walk(self.steps):
            if isinstance(step, Launch):
                found.setdefault(step.kernel)
        return tuple(found)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The sizes that have steps of their own, in the order in which they are tried."""
        return tuple(case for step in walk(self.steps) if isinstance(step, Choice) for case in step.cases)

    @property
    def work(self) -> Work:
        """What a call does: arithmetic, and bytes moved were nothing in a cache.

        A loop of unknown length counts once, of branches the one with the most, and sizes are those to optimise for.
        """
        return _work(self.steps)


def _work(steps: tuple[Step, ...]) -> Work:
    from xlac_sdk.kernel import Work

    flops = nbytes = 0
    for step in steps:
        times, inner = 1, Work()
        match step:
            case Launch(kernel=kernel):
                inner = kernel.work
            case Call(work=Work() as work):
                inner = work
            case Copy(count=count, target=target):
                inner = Work(0, 2 * at_opt(count) * target.slot.dtype.nbytes)
            case Repeat(count=count, body=body):
                times, inner = at_opt(count), _work(body)
            case While(condition=condition, body=body):
                inner = _work((*condition, *body))
            case Branch(branches=branches):
                inner = max(map(_work, branches), key=lambda work: work.flops, default=Work())
            case Choice(otherwise=otherwise):
                inner = _work(otherwise)
        flops, nbytes = flops + times * inner.flops, nbytes + times * inner.bytes
    return Work(flops, nbytes)


def walk(steps: tuple[Step, ...]) -> list[Step]:
    """All steps, those nested in others after them."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        match step:
            case Repeat(body=body):
                found += walk(body)
            case While(condition=condition, body=body):
                found += walk(condition) + walk(body)
            case Branch(branches=branches):
                for branch in branches:
                    found += walk(branch)
            case Choice():
                for path in step.paths:
                    found += walk(path)
    return found


def touched(steps: tuple[Step, ...]) -> set[Slot]:
    """The slots that some step reads or writes."""
    found: set[Slot] = set()
    for step in walk(steps):
        match step:
            case Launch(arguments=arguments) | Call(arguments=arguments):
                found.update(argument.slot for argument in arguments)
            case Copy(target=target, source=source):
                found.update((target.slot, source.slot))
            case While(flag=argument) | Branch(index=argument) | Stamp(log=argument):
                found.add(argument.slot)
    return found
