"""Checked programs as their callers see them: the kinds of checks, and the exception that a failed
one raises.

A checked program has one more output than its model: the record of the first check that failed. The
table of its checks is among the program's facts. `Watched` looks the record up in that table after
every call. Both are made by `passes/checks/insert.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlac.settings import settings
from xlac_sdk.backend import Executable
from xlac_sdk.dims import Shape
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.dimdata import data_of
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, Origin, SourceError, Span

CODES = {
    "bounds": "XL6020",
    "division": "XL6021",
    "nan": "XL6022",
    "infinity": "XL6023",
    "sizes": "XL6024",
}
"""The kinds of checks, each with the diagnostic number that it reports."""
USUAL = ("bounds", "division", "nan", "sizes")
# indices into the record: number of the check from 1 (0: none failed); position; value; iteration,
# from 1
WORDS = 4
FACT = "checks"

Asked = bool | str | Sequence[str] | None


class CheckFailed(SourceError):
    """A check of a checked program failed: its `kind`, its `node`, and the `position` in the tensor
    (None for a scalar).

    The outputs of that call hold what an unchecked program would have given; so does the state of a
    model that has one.
    """

    kind: str
    node: str
    position: tuple[int, ...] | int | None
    value: int | None


class Check(NamedTuple):
    """One check of a program: its kind, its place in the model, and the message for an element that
    fails.
    """

    kind: str
    message: str  # {value} stands for the number found
    node: str
    place: tuple[str, int, int, int] | None  # file, line, column, width
    shape: tuple[Any, ...]  # of the tensor checked: numbers, or records of open sizes
    dtype: str  # of the value in the message; empty where there is none

    @staticmethod
    def of(
        kind: str, message: str, origin: Origin | None, shape: Shape, dtype: DType | None
    ) -> Check:
        """The check of a kind on a node; its place is taken from the node's origin."""
        span = origin.span if origin else None
        place = (str(span.file), span.line, span.column, span.width) if span else None
        return Check(
            kind,
            message,
            origin.name if origin else "",
            place,
            tuple(map(data_of, shape)),
            dtype.value if dtype else "",
        )

    @property
    def span(self) -> Span | None:
        """Where the node was written, or None."""
        if self.place is None:
            return None
        from pathlib import Path

        file, line, column, width = self.place
        return Span(Path(file), line, column, width)

    @property
    def text(self) -> str:
        """What the check looks for, in one line without a call's values; written in manifests."""
        about = self.message.replace("{value} is divided", "an integer is divided").replace(
            " {value}", ""
        )
        where = ""
        if self.place:
            file, line, column, _ = self.place
            where = f"{file.replace(os.sep, '/').rpartition('/')[2]}:{line}:{column}: "
        return f"{where}{self.node or 'a node without a name'}: {about} [{CODES[self.kind]}]"

    def failed(self, position: int, value: int, turn: int) -> CheckFailed:
        """The exception for a record."""
        shown = value % (1 << 64) if self.dtype == DType.U64.value else value
        at: tuple[int, ...] | int | None = position
        # fixed strides: the number of rows need not be known
        if all(isinstance(n, int) for n in self.shape[1:]):
            places: list[int] = []
            for extent in self.shape[:0:-1]:
                position, place = divmod(position, extent)
                places.insert(0, place)
            at = (position, *places) if self.shape else None
        where = f", element {at}" if isinstance(at, int) else f" at {list(at)}" if at else ""
        loop = f", in turn {turn} of the loop" if turn else ""
        node = f"'{self.node}': " if self.node else ""
        message = f"{node}{self.message.replace('{value}', str(shown))}{where}{loop}"
        error = CheckFailed(Diagnostic(CODES[self.kind], message, self.span))
        error.kind, error.node, error.position, error.value = (
            self.kind,
            self.node,
            at,
            shown if self.dtype else None,
        )
        return error


def kinds(asked: Asked) -> tuple[str, ...]:
    """The kinds of checks requested: True for the usual ones, names, or None for the value of
    XLAC_CHECKED.

    Raises SourceError for an unknown kind.
    """
    if asked is None:
        asked = settings().checked
    if isinstance(asked, bool):
        return USUAL if asked else ()
    names = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else list(asked)
    if names == ["all"]:
        return tuple(CODES)
    for name in names:
        if name not in CODES:
            hint = f"there are {', '.join(CODES)}; all, or true for {', '.join(USUAL)}"
            raise SourceError(Diagnostic("XL6025", f"there is no check '{name}'", hint=hint))
    return tuple(kind for kind in CODES if kind in names)


def checks_of(facts: Mapping[str, Any]) -> tuple[Check, ...]:
    """The checks of a program, in order of their numbers; empty for an unchecked program."""
    return tuple(map(_check_of, json.loads(facts.get(FACT, "[]"))))


def _check_of(record: Sequence[Any]) -> Check:
    kind, text, node, place, shape, dtype = record
    return Check(kind, text, node, tuple(place) if place else None, tuple(shape), dtype)


def public(program: Program) -> Program:
    """A checked program without the output that holds the record, as its callers see it."""
    from dataclasses import replace

    return replace(program, outputs=program.outputs[:-1])


class Watched:
    """An executable of a checked program with the interface of an unchecked one. Raises
    CheckFailed.
    """

    def __init__(self, inner: Executable, program: Program) -> None:
        self.inner, self.checks = inner, checks_of(program.facts)
        self._record = program.outputs[-1].name
        self._outputs = len(program.outputs) - 1
        self._arrays = len(program.inputs) + self._outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # other attributes of a backend's executable

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Runs the program, then raises CheckFailed for the first check that failed."""
        record = np.zeros(WORDS, np.int64)
        self.inner.run(inputs, {**outputs, self._record: record})
        self.verify(record)

    def reset(self) -> None:
        """Sets the program's state to zero."""
        self.inner.reset()

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """Bytes of the program's state block."""
        return self.inner.read_state(start, stop)

    def write_state(self, block: Array, start: int = 0) -> None:
        """Writes bytes of the program's state block."""
        self.inner.write_state(block, start)

    @property
    def fast(self) -> Any:
        """The fast call of the wrapped executable, without the record in its results."""
        quick = getattr(self.inner, "fast", None)
        if quick is None:
            return None

        def call(*arrays: Any, **named: Any) -> Any:
            results = quick(*arrays, **named)
            if results is NotImplemented:
                return results
            if self._outputs == 0:
                self.verify(_host(results))
                return ()
            *rest, record = results
            self.verify(_host(record))
            return rest[0] if self._outputs == 1 else tuple(rest)

        return call

    @property
    def at(self) -> Any:
        """The call by addresses of the wrapped executable, with the address of a record added."""
        direct = getattr(self.inner, "at", None)
        if direct is None:
            return None

        def call(addresses: Sequence[int]) -> None:
            record = np.zeros(WORDS, np.int64)
            direct([*addresses[: self._arrays], record.ctypes.data, *addresses[self._arrays :]])
            self.verify(record)

        return call

    @property
    def into(self) -> Any:
        """The call of the wrapped executable that takes arrays of a device."""
        inner = getattr(self.inner, "into", None)
        if inner is None:
            return None

        def call(inputs: Mapping[str, Any], out: Mapping[str, Any]) -> bool:
            record = np.zeros(WORDS, np.int64)
            if not inner(inputs, {**out, self._record: record}):
                return False
            self.verify(record)
            return True

        return call

    def verify(self, record: Array) -> None:
        """Raises CheckFailed for the check that a record says failed."""
        number, position, value, turn = map(int, record)
        if number:
            raise self.checks[number - 1].failed(position, value, turn)


def _host(array: Any) -> Array:
    """An array of a backend, copied to the host where it is elsewhere."""
    return np.asarray(array)
