"""The host's part of a program as C statements: loops become loops, and cases conditions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from xlac_sdk.dims import Dim, upper_bound
from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.host.capi import extents
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Case,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Program,
    Repeat,
    Stamp,
    Step,
    While,
)
from xlac_sdk.programs.steps import Collective
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.limits import count_work


class CSteps(ABC):
    """Writes steps, for a backend of this name. A subclass spells launches, copies and reads of
    numbers in memory; `dialect` spells the names of counters, whose type is `index`.
    """

    def __init__(self, program: Program, dialect: Dialect, backend: str, index: str) -> None:
        self.dialect, self.backend, self.index = dialect, backend, index
        self.sizes = {s.name: s.identifier for s in program.sizes}

    @abstractmethod
    def launch(self, step: Launch, pad: str) -> Iterator[str]:
        """The lines of a launch."""

    @abstractmethod
    def copy(self, step: Copy, length: str) -> str:
        """The statement that copies `length` bytes, at least one."""

    @abstractmethod
    def number(self, argument: Argument) -> tuple[list[str], str]:
        """Statements that read a number from memory, and then its value."""

    def exchange(self, step: Collective, pad: str) -> Iterator[str]:
        """The lines of a collective's start or end."""
        problem = f"the C of the {self.backend} backend has no collectives"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint="`xlac run --mesh` runs it"))

    def begins(self, step: Step, pad: str) -> Iterator[str]:
        """Lines before each step."""
        yield from ()

    def turn_ends(self, pad: str) -> Iterator[str]:
        """Lines at the end of each iteration of a loop."""
        yield from ()

    def write(self, steps: tuple[Step, ...], depth: int = 1) -> Iterator[str]:
        """The lines of steps. Raises UnsupportedError for stamps and calls of libraries."""
        pad = "    " * depth
        for step in steps:
            count_work()
            yield from self.begins(step, pad)
            match step:
                case Launch():
                    yield from self.launch(step, pad)
                case Copy(source=source, count=count):
                    nbytes = count * source.slot.dtype.nbytes
                    if upper_bound(nbytes):
                        known = isinstance(nbytes, int)
                        length = str(nbytes) if known else f"(size_t)({self.size(nbytes)})"
                        yield f"{pad}{self.copy(step, length)}"
                case Repeat(counter=counter, count=count, body=body):
                    name, most = self.dialect.identifier(counter), self.size(count)
                    yield f"{pad}for ({self.index} {name} = 0; {name} < {most}; ++{name}) {{"
                    yield from self.write(body, depth + 1)
                    yield from self.turn_ends(f"{pad}    ")
                    yield f"{pad}}}"
                case While(condition=condition, flag=flag, body=body):
                    yield f"{pad}for (;;) {{"
                    yield from self.write(condition, depth + 1)
                    lines, value = self.number(flag)
                    yield from (f"{pad}    {line}" for line in lines)
                    yield f"{pad}    if (!{value}) break;"
                    yield from self.write(body, depth + 1)
                    yield from self.turn_ends(f"{pad}    ")
                    yield f"{pad}}}"
                case Branch(index=index, branches=branches):
                    yield from self._branch(index, branches, depth)
                case Choice(cases=cases, otherwise=otherwise):
                    for number, case in enumerate(cases):
                        yield f"{pad}{'} else ' if number else ''}if ({self.condition(case)}) {{"
                        yield from self.write(case.steps, depth + 1)
                    yield f"{pad}}} else {{"
                    yield from self.write(otherwise, depth + 1)
                    yield f"{pad}}}"
                case CollectiveStart() | CollectiveDone():
                    yield from self.exchange(step, pad)
                case Stamp():
                    problem = f"the {self.backend} backend has no clock"
                    hint = "profile another target"
                    raise UnsupportedError(Diagnostic("XL5021", problem, hint=hint))
                case Call(name=name):
                    problem = f"the {self.backend} backend does not claim '{name}'"
                    raise UnsupportedError(Diagnostic("XL5021", problem))

    def _branch(
        self, index: Argument, branches: tuple[tuple[Step, ...], ...], depth: int
    ) -> Iterator[str]:
        """A switch over branches."""
        pad = "    " * depth
        lines, value = self.number(index)
        yield from (f"{pad}{line}" for line in lines)
        yield f"{pad}switch ({value}) {{"
        for number, branch in enumerate(branches):
            last = number == len(branches) - 1
            yield f"{pad}{'default' if last else f'case {number}'}: {{"
            yield from self.write(branch, depth + 1)
            yield f"{pad}    break;"
            yield f"{pad}}}"
        yield f"{pad}}}"

    def condition(self, case: Case) -> str:
        """Whether the sizes of the call match a case."""
        return " && ".join(f"{self.sizes[symbol.name]} == {value}" for symbol, value in case.sizes)

    def size(self, dim: Dim) -> str:
        """A size of the program, in C."""
        return extents.text(dim, self.sizes)

    def moved(self, argument: Argument) -> list[str]:
        """The terms of an argument's offset, in elements."""
        terms = [self.size(argument.offset)] if argument.offset else []
        return terms + [
            f"{self.dialect.identifier(counter)} * {self.size(stride)}"
            for counter, stride in argument.strides
        ]
