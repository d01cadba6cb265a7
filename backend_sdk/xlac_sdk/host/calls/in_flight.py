"""Calls in flight of any executable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xlac_sdk.backend import CallInFlight, Executable, Overlapping
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping


def overlaps(executable: Executable) -> bool:
    """Whether calls of an executable can be in flight beside other work of the host."""
    return hasattr(executable, "begin")


def begin(executable: Executable) -> CallInFlight:
    """A call in parts: in flight where the executable's calls can be, else one that computes all of
    it in `start`.
    """
    if overlaps(executable):
        return cast(Overlapping, executable).begin()
    return SynchronousCall(executable)


class SynchronousCall:
    """A call of an executable that reads and writes arrays where they are, and is complete when
    `start` returns. The arrays are of the right types, as callers check.
    """

    __slots__ = ("_executable", "_given")

    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        self._given: dict[str, Array] = {}

    def send(self, name: str, array: Array) -> None:
        """Notes an input."""
        self._given[name] = array

    def start(self, outputs: Mapping[str, Array]) -> None:
        """The whole call."""
        call(self._executable, self._given, outputs)

    def wait(self, name: str) -> None:
        """An output of a call that was started is complete."""

    def end(self) -> None:
        """Nothing is left."""


def call(executable: Executable, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
    """Runs a program with arrays that need no checks, by the faster call that some executables have
    after some calls.
    """
    stopping.check()
    into = getattr(executable, "into", None)
    if into is None or not into(inputs, outputs):
        executable.run(inputs, outputs)
