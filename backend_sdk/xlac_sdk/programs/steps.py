"""The steps of a program: launches of kernels, copies, and host loops and branches around them.

`program.py` re-exports all of it. It is a separate module because a cached program has no steps,
and defining these classes takes a good part of its load time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xlac_sdk.dims import Dim, Shape, Sym, Symbol, evaluate, size_hint
from xlac_sdk.kernel_ir.kernel import Kernel, Work
from xlac_sdk.libraries.library import Problem
from xlac_sdk.source import Origin

if TYPE_CHECKING:
    from xlac_sdk.programs.program import Slot


@dataclass(frozen=True, slots=True)
class Argument:
    """A pointer into a slot: `offset + sum(counter * stride)` elements from its start."""

    slot: Slot
    offset: Dim = 0
    # (counter of an enclosing Repeat, elements per iteration)
    strides: tuple[tuple[str, Dim], ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Launches a kernel, with one argument for each of its parameters, in order.

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
    """Runs steps `count` times with `counter` = 0, 1, …; arguments inside may be offset by it."""

    counter: str
    count: Dim
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    """`loop: condition; if (!*flag) break; body`. The flag is one bool. `alike`: all ranks take as
    many turns, so collectives may be inside.
    """

    condition: tuple[Step, ...]
    flag: Argument
    body: tuple[Step, ...]
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs the branch whose number is the i32 at `index`; the last if out of range. `alike`: all
    ranks take the same branch, so collectives may be inside.
    """

    index: Argument
    branches: tuple[tuple[Step, ...], ...]
    alike: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """Steps for the calls whose sizes have these values; sizes that are not named may have any."""

    sizes: tuple[tuple[Symbol, int], ...]
    steps: tuple[Step, ...]

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call with these sizes, by name, matches."""
        return all(sizes[symbol.name] == value for symbol, value in self.sizes)

    @property
    def title(self) -> str:
        """`batch=8, past=1024`"""
        return ", ".join(f"{symbol.name}={value}" for symbol, value in self.sizes)


@dataclass(frozen=True, slots=True)
class Choice:
    """Runs the steps of the first case that matches the sizes of the call, or else `otherwise`,
    which supports all sizes.
    """

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
    """A whole operation that the target claimed, such as a library's matmul.

    Arguments are its inputs, then its results, then workspace, each with its shape in `shapes`,
    dense and row-major. Shapes and attributes may be expressions over the program's sizes.
    """

    name: str
    arguments: tuple[Argument, ...]
    shapes: tuple[Shape, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin | None = None
    work: Work | None = None

    def at(self, sizes: Mapping[str, int]) -> Call:
        """The call for given sizes, by name, with known shapes and attributes."""
        known = {name: _at(value, sizes) for name, value in self.attributes.items()}
        return replace(self, shapes=_at(self.shapes, sizes), attributes=known)


def _at(value: Any, sizes: Mapping[str, int]) -> Any:
    match value:
        case Sym():
            return evaluate(value, sizes)
        case tuple():
            return tuple(_at(part, sizes) for part in value)
    return value.at(sizes) if isinstance(value, Problem) else value


@dataclass(frozen=True, slots=True)
class Stamp:
    """Appends (code, time) to a log, for `xlac profile`; code 0 clears the log first.

    The log is an array of i64: the number of entries, then the entries, as many as fit. Time is in
    units of a constant rate, which the reader calibrates.

    Its last `parts` words, if not 0, are for backends whose threads share a launch: the number of
    parts of launches that ran, then (thread, begin, end) of each, as many as fit; thread is the
    value of `threading.get_ident`.
    """

    log: Argument
    code: int
    parts: int = 0


@dataclass(frozen=True, slots=True)
class RankExchange:
    """What a collective does. `number` counts the collectives of a program: all ranks have them in
    one order.

    `kind`: all_reduce, reduce_scatter, all_gather, all_to_all, permute, broadcast or axis_index, in
    groups of ranks that differ along `axes` of the mesh. `combine`: add, mul, max or min. `root` is
    the sender of a broadcast, `pairs` are the (source, target) of a permutation, numbers in the
    group.

    `send` and `receive` are messages between two ranks whose programs are not the same, as stages
    of a pipeline: `root` is the other rank, and `tag` is the same on both, in the order of which
    two ranks exchange what has one tag. Both have one argument, which is source and target.
    """

    number: int
    kind: str
    axes: tuple[str, ...]
    combine: str = "add"
    root: int = 0
    pairs: tuple[tuple[int, int], ...] = ()
    tag: int = 0


@dataclass(frozen=True, slots=True)
class CollectiveStart:
    """Begins to exchange `sent` elements at `source` with those of other ranks; `received` elements
    arrive at `target`.

    Until its CollectiveDone no other step touches either, but that what is sent by `send` is read.
    `axis_index` sends nothing: its source is its target.
    """

    exchange: RankExchange
    source: Argument
    target: Argument
    sent: Dim
    received: Dim
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class CollectiveDone:
    """Waits until what the start of the same exchange began has arrived."""

    exchange: RankExchange
    source: Argument
    target: Argument


Collective = CollectiveStart | CollectiveDone
Step = Launch | Copy | Repeat | While | Branch | Choice | Call | Stamp | Collective


def exchanges(steps: tuple[Step, ...]) -> list[CollectiveStart]:
    """Every start among steps and those nested in them."""
    return [step for step in walk(steps) if isinstance(step, CollectiveStart)]


def work(steps: tuple[Step, ...]) -> Work:
    """The work of steps: see `Program.work`."""
    flops = nbytes = 0
    for step in steps:
        times, inner = 1, Work()
        match step:
            case Launch(kernel=kernel):
                inner = kernel.work
            case Call(work=Work() as known):
                inner = known
            case Copy(count=count, target=target):
                inner = Work(0, 2 * size_hint(count) * target.slot.dtype.nbytes)
            case Repeat(count=count, body=body):
                times, inner = size_hint(count), work(body)
            case While(condition=condition, body=body):
                inner = work((*condition, *body))
            case Branch(branches=branches):
                inner = max(map(work, branches), key=lambda one: one.flops, default=Work())
            case Choice(otherwise=otherwise):
                inner = work(otherwise)
        flops, nbytes = flops + times * inner.flops, nbytes + times * inner.bytes
    return Work(flops, nbytes)


def walk(steps: tuple[Step, ...]) -> list[Step]:
    """All steps, each before those nested in it."""
    listed: list[Step] = []
    for step in steps:
        listed.append(step)
        match step:
            case Repeat(body=body):
                listed += walk(body)
            case While(condition=condition, body=body):
                listed += walk(condition) + walk(body)
            case Branch(branches=branches):
                for branch in branches:
                    listed += walk(branch)
            case Choice():
                for path in step.paths:
                    listed += walk(path)
    return listed


def arguments(steps: tuple[Step, ...]) -> Iterator[Argument]:
    """Every argument of steps, those of nested ones, of flags and of branches too; as often as it
    is given.
    """
    for step in walk(steps):
        match step:
            case Launch(arguments=given) | Call(arguments=given):
                yield from given
            case Copy() | CollectiveStart() | CollectiveDone():
                yield from (step.target, step.source)
            case While(flag=given) | Branch(index=given) | Stamp(log=given):
                yield given


def touched(steps: tuple[Step, ...]) -> set[Slot]:
    """The slots that the steps read or write."""
    return {argument.slot for argument in arguments(steps)}
