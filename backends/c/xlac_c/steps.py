"""The host's part of a program as C statements: launches become calls, loops become loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_c.exchanges import Exchanges, in_process
from xlac_c.kernels import Callee
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.emit.ctext import Dialect
from xlac_sdk.host.capi.steps import CSteps
from xlac_sdk.kernel_ir.kernel import Access, Kernel
from xlac_sdk.lowering.stop_checks import StopChecks
from xlac_sdk.programs.constants import places
from xlac_sdk.programs.program import Argument, Copy, Launch, Program, Role, Step
from xlac_sdk.programs.steps import Collective

OFTEN = 5e6  # nanoseconds of steps between stop checks
BLOCKS = {Role.TEMPORARY: "arena", Role.STATE: "state", Role.CONSTANT: "weights"}


class Steps(CSteps):
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
        super().__init__(program, dialect, "c", "ptrdiff_t")
        self.exchanges, self.varying = exchanges, varying
        # `since`: nanoseconds of work since the last stop check
        self.stop_checks, self.committed, self.since = stop_checks, False, 0.0
        self.callees, self.mapped = callees, mapped
        self.places = places(program)
        self.touched: dict[str, None] = {}  # the blocks of memory that the text refers to

    def launch(self, step: Launch, pad: str) -> Iterator[str]:
        """A call of the kernel's function."""
        pairs = zip(step.arguments, step.kernel.parameters, strict=True)
        given = [self.pointer(a, b.access is not Access.READ) for a, b in pairs]
        callee = self.callees[step.kernel]
        passed = [
            *(given[i] for i in callee.arguments),
            *(self.size(step.sizes[i]) for i in callee.sizes),
        ]
        stop = "&never" if self.committed else "&context->stop"
        passed += [stop] * callee.stoppable
        yield f"{pad}{callee.name}({', '.join(passed)});"
        if callee.stoppable:
            yield from self.turn_ends(pad)
        if self.exchanges is not None:
            yield from self.exchanges.between(pad)

    def exchange(self, step: Collective, pad: str) -> Iterator[str]:
        """Calls of MPI."""
        if self.exchanges is None:
            raise in_process()
        yield from self.exchanges.write(step, self.pointer, pad)

    def copy(self, step: Copy, length: str) -> str:
        """A copy between arrays that do not overlap."""
        to, of = self.pointer(step.target, True), self.pointer(step.source)
        return f"memcpy({to}, {of}, {length});"

    def number(self, argument: Argument) -> tuple[list[str], str]:
        """The number where it is."""
        return [], f"*({self.pointer(argument)})"

    def begins(self, step: Step, pad: str) -> Iterator[str]:
        """Inserts a stop check before a step if there was enough work since the last one."""
        if not self.stop_checks.long:
            return
        self.committed |= step is self.stop_checks.committed
        work = self.stop_checks.usual((step,))
        if self.since + work > OFTEN and self.since > 0:
            yield from self.turn_ends(pad)
        self.since += work

    def turn_ends(self, pad: str) -> Iterator[str]:
        """Returns from the run on a stop request."""
        if self.stop_checks.long and not self.committed:
            yield f"{pad}if (context->stop != 0) return stopped(context);"
            self.since = 0.0

    def pointer(self, argument: Argument, written: bool = False) -> str:
        """The address of an argument, as a pointer to its elements."""
        slot = argument.slot
        kind = TYPES[slot.dtype]
        move = "".join(f" + {t}" for t in self.moved(argument))
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
