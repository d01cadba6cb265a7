"""The interface of a backend. A new target subclasses `Backend` and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xlac_sdk.device import Device, MemoryPlace
from xlac_sdk.dtypes import Array
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Request, Target

if TYPE_CHECKING:
    from pathlib import Path

    from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant
    from xlac_sdk.machine.measuring import Probes
    from xlac_sdk.programs.program import Program


__all__ = [
    "Array",
    "Backend",
    "CallInFlight",
    "Device",
    "Entered",
    "Executable",
    "MemoryPlace",
    "Overlapping",
]
# Device and MemoryPlace: their former place, from which ports import them


class Executable(Protocol):
    """A loaded program. Arrays are C-contiguous, with the dtype and shape of their slot, which
    callers check.
    """

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`; both by name, both complete. Thread-safe."""

    def reset(self) -> None:
        """Resets the program's state to its initial contents."""

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """A copy of bytes of the program's state block (u8), all of them by default: each STATE
        slot is at its offset.
        """

    def write_state(self, block: Array, start: int = 0) -> None:
        """Overwrites bytes of the program's state block, from the byte `start` on. Writing the
        whole block restores a state that an interrupted call left inconsistent.
        """


class Entered(Executable, Protocol):
    """A loaded program with entries (`xlac_sdk.programs.entries`), returned by backends with
    `entry_forms`.
    """

    def enter(self, entry: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Runs an entry of the program, given its name. Raises SourceError, XL6030 and XL6031, for
        the conditions in `Entry.needs` and `Entry.succeeded`.
        """


class CallInFlight(Protocol):
    """A call of a program that passes beside the caller's other work. It is used by one thread at a
    time, which need not be the same one.
    """

    def send(self, name: str, array: Array) -> None:
        """Starts to copy an input to the device. The array stays alive and unchanged until the call
        has ended.
        """

    def start(self, outputs: Mapping[str, Array]) -> None:
        """Starts to compute, once all inputs were sent, and then to copy the results to the arrays
        of all outputs, in the order of the mapping. Raises what `Executable.run` raises, as far as
        it is known yet.
        """

    def wait(self, name: str) -> None:
        """Waits until an output, of a call that was started, is complete in its array."""

    def end(self) -> None:
        """Waits for what is left of the call, raises its errors, and frees the program for the next
        one. Called exactly once, also after errors and where nothing was sent.
        """


class Overlapping(Executable, Protocol):
    """A loaded program whose calls can be in flight while the caller does other work: its device
    copies and computes by itself. Returned by backends that say `overlapping`.
    """

    def begin(self) -> CallInFlight:
        """A call, when the calls before it have ended."""

    def host_memory(self, nbytes: int) -> Array | None:
        """Memory of the host (u8) for arrays of calls, which the device copies by itself; it is
        freed with its last array. None where any memory will do, or none is left.
        """


CORE_FLOPS = 250e9
"""Operations a second that no core of a processor exceeds; its rate in practice is a third of that.
"""


class Backend(ABC):
    """Turns a program of kernels into something that runs."""

    name: ClassVar[str]
    text_only: ClassVar[bool] = False
    """Whether the result of `emit` is the whole artefact, constants included; `build` is then
    needed only to run.
    """
    forms: ClassVar[tuple[str, ...]] = ()
    """The forms that `package` can write: keys of `xlac_sdk.host.package.FORMS`."""
    usual: ClassVar[tuple[str, ...]] = ()
    """The forms that are written by default."""
    rank_forms: ClassVar[tuple[str, ...]] = ()
    """The subset of `forms` that supports programs with ranks (`xlac_sdk.host.ranks.parts`)."""
    entry_forms: ClassVar[tuple[str, ...]] = ()
    """The subset of `forms` that supports programs with entries (`xlac_sdk.programs.entries`);
    empty for a backend without entries.
    """

    records: ClassVar[bool] = False
    """Whether its packages report failed checks themselves (`xlac_sdk.host.records`): they have the
    C API, or `Runner` loads them.
    """
    chooses_checks: ClassVar[bool] = False
    """Whether a package of a checked program also contains the unchecked one, to be chosen when it
    is built.
    """

    control: ClassVar[Mapping[str, str]] = {}
    """What runs `while`, `cond` and `scan`, if it is not the host: text for `xlac explain`."""

    overlapping: ClassVar[bool] = False
    """Whether `load` returns executables that are `Overlapping`."""

    warps: ClassVar[tuple[int, ...]] = ()
    """What `Target.warp` may be, where exchanges go through memory and no hardware decides it:
    `xlac backend tune` takes the fastest.
    """

    relies_on: ClassVar[tuple[str, ...]] = ()
    """Other packages whose version affects the result of `build`, by import name."""

    def peak_flops(self, threads: int) -> float | None:
        """Operations a second that no machine exceeds with so many threads, so that work that would
        take absurdly long is refused; None if nothing is known.
        """
        return None

    def on(self, number: int) -> Backend:
        """The backend for one of several devices, which users choose as `NAME:1`. Raises
        SourceError if there are none.
        """
        raise SourceError(
            Diagnostic("XL5001", f"target '{self.name}' has no devices to choose by number")
        )

    def on_rank(self, local: int) -> Backend:
        """The backend of one of several ranks on a machine, by its number there, where they are not
        to share a device.
        """
        return self

    @abstractmethod
    def target(self, request: Request) -> Target:
        """The target of a request, with what was tuned of its device (`Target.tuned`). Raises
        SourceError for an unknown CPU, triple or architecture.
        """

    def target_for(self, request: Request) -> Target:
        """The target of a request, in which the facts that the user gave are those that schedules
        read. Raises SourceError for facts that the backend does not take, and as `target` does.
        """
        given = request.given_facts
        try:
            made = self.target(request)
        except ValueError as error:  # facts that contradict each other
            if not given:
                raise
            raise SourceError(Diagnostic("XL5042", str(error))) from None
        unused = [name for name, value in given.items() if made.fact(name) != value]
        hint = f"`xlac backend info {self.name}` shows the facts in use"
        if unused:
            problem = f"the {self.name} backend takes no facts {', '.join(unused)}"
            raise SourceError(Diagnostic("XL5042", problem, hint=hint))
        return made

    def probes(self, target: Target) -> Probes | None:
        """The probes that measure this machine, for `xlac doctor --measure`; None if the backend
        has none.
        """
        return None

    @abstractmethod
    def emit(self, program: Program, target: Target) -> dict[str, str]:
        """The program as source text, by file name. Pure: it reads no files and uses no tools or
        devices.
        """

    def built_by(self) -> str:
        """A fingerprint of the tools that `build` runs, since an artefact cached with other tools
        may be unusable.
        """
        return ""

    @abstractmethod
    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Compiles the sources inside `folder` and returns the artefact."""

    @abstractmethod
    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        """Makes the artefact callable in this process."""

    def summary(self, program: Program) -> Mapping[str, Any] | None:
        """What `load` needs of a program besides its slots, sizes and constants, as JSON to be
        stored in its facts.

        None if it needs the steps themselves: then whole compilations are not cached.
        """
        return None

    def settle(self, artifact: Path, program: Program, target: Target, folder: Path) -> None:
        """Writes files to the folder of a cached compilation that let `revive` replace `load`; by
        default nothing.
        """
        return

    def revive(self, folder: str, program: Program, target: Target) -> Executable | None:
        """The result of `load`, from the files that `settle` wrote; the program has no steps.

        None if those files are unusable: then the artefact itself is loaded.
        """
        return None

    def package(
        self, variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path
    ) -> Package:
        """Writes the forms `wanted`, all among `forms`, into a folder, for other programs to link
        or load.

        Several variants are the same model for several processors, the least capable first. The
        same input gives the same bytes. Raises UnsupportedError if a tool is missing or the target
        has no such form.
        """
        raise UnsupportedError(Diagnostic("XL5011", f"target '{self.name}' writes no packages"))

    def open(self, artefact: Artefact) -> Executable:
        """Makes an artefact callable, without a compiler. Its files have been checked.

        The build results of a backend without forms are stored beside the program, and passed to
        `load`.
        """
        from xlac_sdk.programs import portable

        if not artefact.package.library or not (artefact.folder / portable.FILE).is_file():
            raise UnsupportedError(
                Diagnostic("XL5011", f"target '{self.name}' cannot load its packages")
            )
        program, target = portable.read(artefact.folder)
        return self.load(artefact.folder / artefact.package.library, program, target)
