"""Steps on a device as C statements of its host: launches and copies are calls of the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from xlac_sdk.dims import upper_bound
from xlac_sdk.emit.cdialect import C99
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.host.capi.steps import CSteps
from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.stop_checks import changes_state
from xlac_sdk.programs.program import Argument, Copy, Launch, Program, Role, Slot, Step
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import MOST_ELEMENTS

HOST = replace(C99, renames=True)  # counters have names that nothing else in the file has
STOPPED = "RUN_STOPPED"  # the macro of the status of a run that was stopped
BLOCKS = {Role.TEMPORARY: "arena", Role.STATE: "state"}


class DeviceSteps(CSteps):
    """Writes steps. `starts` has the byte at which each constant, input and output begins in the
    block of these, `numbers` the place of each kernel in the table of kernels.
    """

    def __init__(
        self,
        program: Program,
        starts: Mapping[Slot, int],
        numbers: Mapping[Kernel, int],
        backend: str,
    ) -> None:
        super().__init__(program, HOST, backend, "int64_t")
        self.starts, self.numbers = starts, numbers
        self.committed = False  # whether a step before may have changed the state
        self.stoppable = True
        self.values = 0  # numbers read so far

    def launch(self, step: Launch, pad: str) -> Iterator[str]:
        """A launch: the places and the sizes that the kernel takes."""
        _check_sizes(step)
        places = ", ".join(map(self.place, step.arguments))
        sizes = ", ".join(map(self.size, step.sizes)) or "0"
        given = f"(const memory_place[]){{{places}}}, (const int64_t[]){{{sizes}}}"
        yield f"{pad}CHECK(launch(context, {self.numbers[step.kernel]}, {given}));"

    def copy(self, step: Copy, length: str) -> str:
        """A copy on the device."""
        ends = f"{self.place(step.target)}, {self.place(step.source)}"
        return f"CHECK(copied(context, {ends}, {length}));"

    def number(self, argument: Argument) -> tuple[list[str], str]:
        """A number copied to the host, after all work before it."""
        name = f"number_{self.values}"
        self.values += 1
        kind = TYPES[argument.slot.dtype]
        read = f"CHECK(number(context, &{name}, {self.place(argument)}, sizeof {name}));"
        return [f"{kind} {name};", read], name

    def unstopped(self, steps: tuple[Step, ...]) -> Iterator[str]:
        """The lines of steps that are not stopped: those that initialize the state."""
        self.stoppable = False
        yield from self.write(steps)
        self.stoppable = True

    def begins(self, step: Step, pad: str) -> Iterator[str]:
        """A check for a stop request. From the first step that changes the state, a call that ends
        early leaves it inconsistent.
        """
        if not self.stoppable:
            return
        yield f"{pad}if (context->stop != 0) return {STOPPED};"
        if not self.committed and changes_state(step):
            self.committed = True
            yield f"{pad}context->torn = 1;"

    def place(self, argument: Argument) -> str:
        """An argument's place in memory."""
        slot = argument.slot
        block = BLOCKS.get(slot.role, "data")
        start = self.starts[slot] if block == "data" else slot.offset if slot.nbytes else 0
        moved = " + ".join(self.moved(argument))
        offset = f"{start} + {slot.dtype.nbytes} * ({moved})" if moved else f"{start}"
        return f"AT({block}, {offset})"


def _check_sizes(step: Launch) -> None:
    """Raises UnsupportedError for a kernel whose indices are i32, where a call may have sizes, or a
    buffer, that these do not reach.
    """
    variables = step.kernel.sizes
    if not variables or variables[0].dtype.bits > 32:
        return
    sizes = tuple(map(upper_bound, step.sizes))
    names = {var.name: size for var, size in zip(variables, sizes, strict=True)}
    counts = (extent(b.size, names) for b in step.kernel.parameters if not isinstance(b.size, int))
    most = max((*sizes, *counts))
    if most > MOST_ELEMENTS:
        problem = f"a size or a buffer may be {most:,}, of {MOST_ELEMENTS:,} elements that 32-bit "
        problem += "indices reach"
        hint = "--dim with a smaller bound"
        raise UnsupportedError(Diagnostic("XL5010", problem, hint=hint))
