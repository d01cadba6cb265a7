"""Backends whose artefact is one text, which the driver compiles when it is loaded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import ClassVar, Self

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.device import Device
from xlac_sdk.host.device_c.driver import HostDriver
from xlac_sdk.host.device_c.package import text_package
from xlac_sdk.host.package import Package, Packaging, Variants
from xlac_sdk.host.runner import Runner
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Program
from xlac_sdk.target import Target


class TextBackend(Backend):
    """A backend with `target`, `emit` and `opened`. Its programs are grids (`lowering/grids.py`),
    and its packages the text and, with a `driver`, the host's side as C. `number` is that of the
    device, which users choose as `NAME:1`: for one that is not there `target` and `opened` raise
    UnsupportedError.
    """

    overlapping: ClassVar[bool] = True
    driver: ClassVar[HostDriver | None] = None
    number = 0

    def on(self, number: int) -> Self:
        made = copy(self)
        made.number = number
        return made

    @abstractmethod
    def opened(self, text: Path) -> Device:
        """A device for the program of a text, which may be deleted afterwards. Raises
        UnsupportedError if there is none, or it refuses the text.
        """

    def build(self, sources: Mapping[str, str], folder: Path) -> Path:
        """Writes the text."""
        ((name, text),) = sources.items()
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return Runner(self.opened(artifact), grids(program, target))

    def package(self, variants: Variants, wanted: Packaging, folder: Path) -> Package:
        return text_package(self, variants, wanted, folder, self.driver)
