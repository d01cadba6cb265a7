"""What a backend is. A new target subclasses `Backend` and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from xlac_sdk.dtypes import Array
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Request, Target

if TYPE_CHECKING:
    from pathlib import Path

    from xlac_sdk.host.package import Artefact, Package, Packaging, ProcessorVariant
    from xlac_sdk.kernel_ir.kernel import Kernel
    from xlac_sdk.programs.program import Call, Program


__all__ = ["Array", "Backend", "Device", "Entered", "Executable"]


class Executable(Protocol):
    """A loaded program. Arrays are C-contiguous, of the dtype and shape of their slot; callers
    check.
    """

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`; both by name, both complete. Safe from several threads
        at once.
        """

    def reset(self) -> None:
        """Sets the program's state to what it was when it was loaded."""

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """A copy of bytes of the program's state block (u8), all of them by default: each STATE slot
        is at its offset.
        """

    def write_state(self, block: Array, start: int = 0) -> None:
        """Writes such bytes to the program's state block, from the byte `start` on. A state that was
        half changed is whole again where all of it is written.
        """


class Entered(Executable, Protocol):
    """A loaded program with entries (`xlac_sdk.programs.entries`): what a backend that has
    `entry_forms` opens.
    """

    def enter(self, entry: str, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """`run` for an entry of the program, by its name. Raises SourceError, XL6030 and XL6031, for
        what `Entry.needs` and `Entry.succeeded` say.
        """


class Backend(ABC):
    """Turns a program of kernels into something that runs."""

    name: ClassVar[str]
    text_only: ClassVar[bool] = False
    """Whether what `emit` gives is the whole artefact, constants included; `build` is then needed
    only to run.
    """
    forms: ClassVar[tuple[str, ...]] = ()
    """What `package` can write: keys of `xlac_sdk.host.package.FORMS`."""
    usual: ClassVar[tuple[str, ...]] = ()
    """The forms that are written when the user names none."""
    entry_forms: ClassVar[tuple[str, ...]] = ()
    """Those of `forms` that programs with entries (`xlac_sdk.programs.entries`) may have; none for a
    backend that knows no entries.
    """

    records: ClassVar[bool] = False
    """Whether its packages have the C API, which tells of failed checks itself:
    `xlac_sdk.host.records`.
    """
    chooses_checks: ClassVar[bool] = False
    """Whether a package of a checked program holds the unchecked one too, for who builds it to
    choose.
    """

    control: ClassVar[Mapping[str, str]] = {}
    """Who runs `while`, `cond` and `scan`, where that is not the host: words for `xlac explain`."""

    relies_on: ClassVar[tuple[str, ...]] = ()
    """Other packages whose version decides what `build` gives, by the name they are imported as."""

    def on(self, number: int) -> Backend:
        """The same for one of several devices, which users choose as `NAME:1`. Raises SourceError
        where there are none.
        """
        raise SourceError(
            Diagnostic("XL5001", f"target '{self.name}' has no devices to choose by number")
        )

    @abstractmethod
    def target(self, request: Request) -> Target:
        """The machine compiled for. Raises SourceError for a CPU, triple or architecture it does
        not know.
        """

    @abstractmethod
    def emit(self, program: Program, target: Target) -> dict[str, str]:
        """The program as source text, by file name. Pure: no files, no toolchain, no device."""

    def built_by(self) -> str:
        """Tells the tools that `build` runs from others, where a kept artefact may be of no use
        with those.
        """
        return ""

    @abstractmethod
    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Compiles the sources inside `folder` and returns the artefact."""

    @abstractmethod
    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        """Makes the artefact callable in this process."""

    def summary(self, program: Program) -> Mapping[str, Any] | None:
        """What `load` reads of a program beside its slots, sizes and constants, as JSON to be found
        in its facts.

        None when it needs the steps themselves: then whole compilations are not kept.
        """
        return None

    def settle(self, artifact: Path, program: Program, target: Target, folder: Path) -> None:
        """Writes into the folder of a kept compilation what lets `revive` do without `load`;
        nothing, by default.
        """
        return

    def revive(self, folder: str, program: Program, target: Target) -> Executable | None:
        """What `load` gives, from what `settle` wrote into a folder; the program has no steps.

        None where nothing there will do: then the artefact itself is loaded.
        """
        return None

    def package(
        self, variants: Sequence[ProcessorVariant], wanted: Packaging, folder: Path
    ) -> Package:
        """Writes the forms of `wanted`, all among `forms`, into a folder: what other programs are
        built with.

        Several variants are the same model for several processors, the least first. The same input
        gives the same bytes. Raises UnsupportedError for a tool that is missing or a target that
        has no such form.
        """
        raise UnsupportedError(Diagnostic("XL5011", f"target '{self.name}' writes no packages"))

    def open(self, artefact: Artefact) -> Executable:
        """Makes an artefact callable, without a compiler. Its files were checked.

        What a backend without forms has built lies beside the program; `load` takes both.
        """
        from xlac_sdk.programs import portable

        if not artefact.package.library or not (artefact.folder / portable.FILE).is_file():
            raise UnsupportedError(
                Diagnostic("XL5011", f"target '{self.name}' cannot load its packages")
            )
        program, target = portable.read(artefact.folder)
        return self.load(artefact.folder / artefact.package.library, program, target)


class Device(ABC):
    """A device that the host drives. The SDK's runner (`xlac_sdk.host.runner`) turns one into an
    Executable.
    """

    @abstractmethod
    def alloc(self, nbytes: int) -> int:
        """Device memory, as an address; aligned to 256 bytes. Raises LimitError when there is not
        enough.
        """

    @abstractmethod
    def copy(self, target: int | memoryview, source: int | memoryview, nbytes: int) -> None:
        """Copies to, from or on the device; ordered after earlier launches."""

    @abstractmethod
    def launch(self, kernel: Kernel, pointers: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        """Runs one kernel, ordered after earlier copies and launches."""

    def call(self, step: Call, pointers: tuple[int, ...]) -> None:
        """Runs a whole operation, whose sizes are known; only a device whose target claims some is
        asked to.
        """
        raise UnsupportedError(Diagnostic("XL5025", f"the device knows no operation '{step.name}'"))

    @abstractmethod
    def sync(self) -> None:
        """Returns when everything asked for is done; raises what went wrong."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Gives memory back."""
