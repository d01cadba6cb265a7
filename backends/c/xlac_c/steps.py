"""The host's part of a program as C statements: launches become calls, loops become loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_c.exchanges import Exchanges, in_process
from xlac_c.kernels import Callee
from xlac_sdk.dims import Dim, upper_bound
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.emit.ctext import Dialect
from xlac_sdk.host.capi import extents
from xlac_sdk.kernel_ir.kernel import Access, Kernel
from xlac_sdk.lowering.stop_checks import StopChecks
from xlac_sdk.programs.constants import places
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
    Role,
    Stamp,
    Step,
    While,
)
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.limits import count_work

OFTEN = 5e6  # nanoseconds of steps between stop checks
BLOCKS = {Role.TEMPORARY: "arena", Role.STATE: "state", Role.CONSTANT: "weights"}


class Steps:
    """Writes steps. Constants are arrays of the file, or with `mapped` offsets in the block of
    weights; the symbols in `varying` are tables with an array for each part of the ranks.
    """

    def __init__(
        self,
        program: Program,
        callees: Mapping[Kernel, Callee],
        mapped: bool,
        dialect: Dialect,
        stop_checks: StopChecks,
        exchanges: Exchanges | None = None,
        varying: frozenset[str] = frozenset(),
    ) -> None:
        self.exchanges, self.varying = exchanges, varying
        # `since`: nanoseconds of work since the last stop check
        self.stop_checks, self.committed, self.since = stop_checks, False, 0.0
        self.program, self.callees, self.mapped, self.dialect = program, callees, mapped, dialect
        self.places = places(program)
        self.sizes = {s.name: s.identifier for s in program.sizes}
        self.touched: dict[str, None] = {}  # the blocks of memory that the text refers to

    def write(self, steps: tuple[Step, ...], depth: int = 1) -> Iterator[str]:
        """The lines of steps."""
        pad = "    " * depth
        for step in steps:
            count_work()
            yield from self.begins(step, pad)
            match step:
                case Launch():
                    yield from self.launch(step, pad)
                case Copy(target=target, source=source, count=count):
                    nbytes = count * source.slot.dtype.nbytes
                    if upper_bound(nbytes):
                        length = (
                            nbytes if isinstance(nbytes, int) else f"(size_t)({self.size(nbytes)})"
                        )
                        to, of = self.pointer(target, True), self.pointer(source)
                        yield f"{pad}memcpy({to}, {of}, {length});"
                case Repeat(counter=counter, count=count, body=body):
                    name, most = self.dialect.identifier(counter), self.size(count)
                    yield f"{pad}for (ptrdiff_t {name} = 0; {name} < {most}; ++{name}) {{"
                    yield from self.write(body, depth + 1)
                    yield from self.check_stop(f"{pad}    ")
                    yield f"{pad}}}"
                case While(condition=condition, flag=flag, body=body):
                    yield f"{pad}for (;;) {{"
                    yield from self.write(condition, depth + 1)
                    yield f"{pad}    if (!*({self.pointer(flag)})) break;"
                    yield from self.write(body, depth + 1)
                    yield from self.check_stop(f"{pad}    ")
                    yield f"{pad}}}"
                case Branch(index=index, branches=branches):
                    yield from self.branch(index, branches, depth)
                case Choice(cases=cases, otherwise=otherwise):
                    for number, case in enumerate(cases):
                        yield f"{pad}{'} else ' if number else ''}if ({self.condition(case)}) {{"
                        yield from self.write(case.steps, depth + 1)
                    yield f"{pad}}} else {{"
                    yield from self.write(otherwise, depth + 1)
                    yield f"{pad}}}"
                case CollectiveStart() | CollectiveDone():
                    if self.exchanges is None:
                        raise in_process()
                    yield from self.exchanges.write(step, self.pointer, pad)
                case Stamp():
                    raise UnsupportedError(
                        Diagnostic(
                            "XL5021", "the c backend has no clock", hint="profile another target"
                        )
                    )
                case Call(name=name):
                    raise UnsupportedError(
                        Diagnostic("XL5021", f"the c backend does not claim '{name}'")
                    )

    def launch(self, step: Launch, pad: str) -> Iterator[str]:
        """The call of a kernel's function."""
        pairs = zip(step.arguments, step.kernel.parameters, strict=True)
        given = [self.pointer(a, b.access is not Access.READ) for a, b in pairs]
        callee = self.callees[step.kernel]
        passed = [given[i] for i in callee.arguments]
        passed += [self.size(step.sizes[i]) for i in callee.sizes]
        passed += ["&never" if self.committed else "&context->stop"] * callee.stoppable
        yield f"{pad}{callee.name}({', '.join(passed)});"
        if callee.stoppable:
            yield from self.check_stop(pad)
        if self.exchanges is not None:
            yield from self.exchanges.between(pad)

    def begins(self, step: Step, pad: str) -> Iterator[str]:
        """Inserts a stop check before a step if there was enough work since the last one."""
        if not self.stop_checks.long:
            return
        self.committed |= step is self.stop_checks.committed
        work = self.stop_checks.usual((step,))
        if self.since + work > OFTEN and self.since > 0:
            yield from self.check_stop(pad)
        self.since += work

    def check_stop(self, pad: str) -> Iterator[str]:
        """Returns from the run on a stop request."""
        if self.stop_checks.long and not self.committed:
            yield f"{pad}if (context->stop != 0) return stopped(context);"
            self.since = 0.0

    def branch(
        self, index: Argument, branches: tuple[tuple[Step, ...], ...], depth: int
    ) -> Iterator[str]:
        """A switch over branches."""
        pad = "    " * depth
        yield f"{pad}switch (*({self.pointer(index)})) {{"
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

    def pointer(self, argument: Argument, written: bool = False) -> str:
        """The address of an argument, as a pointer to its elements."""
        slot = argument.slot
        kind = TYPES[slot.dtype]
        terms = [self.size(argument.offset)] if argument.offset else []
        terms += [
            f"{self.dialect.identifier(counter)} * {self.size(stride)}"
            for counter, stride in argument.strides
        ]
        move = "".join(f" + {t}" for t in terms)
        if slot.role in (Role.INPUT, Role.OUTPUT):
            return f"{slot.symbol}{move}"
        if slot.role is Role.CONSTANT and not slot.size:
            return f"(const {kind} *)NULL"
        if slot.role is Role.CONSTANT and not self.mapped:
            part = "[context->part]" if slot.symbol in self.varying else ""
            return f"{slot.symbol}{part}{move}"
        block = BLOCKS[slot.role]
        self.touched[block] = None
        offset = (
            self.places[slot] if slot.role is Role.CONSTANT else slot.offset if slot.nbytes else 0
        )
        start = f"({block} + {offset})" if offset else block
        return f"({'' if written else 'const '}{kind} *){start}{move}"
