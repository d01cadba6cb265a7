"""CSV files with a header line: columns of numbers, read once, by NumPy's parser."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from xlac.training.data.column import ArrayColumn, Column, TrainingInput, fault
from xlac.training.data.spill import SpilledRows
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.support.counts import number_of
from xlac_sdk.support.files import regular

CHUNK_ROWS = 4096  # rows that are parsed at once
MAX_LINE = 16 << 20  # characters
Asked = Mapping[str, tuple[TrainingInput, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class CsvColumn(ArrayColumn):
    """A column of a CSV file; `lined` if each row is one line, so that its line number is known."""

    lined: bool = True

    def place(self, row: int) -> str:
        """The file and line of a row, or its number where rows are not lines."""
        return f"{self.source}:{row + 2}" if self.lined else f"{self.source}, row {row}"


class CsvTable:
    """A CSV file. The delimiter is the first of `,`, `;` and tab that the header has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._opened() as file:
            head = file.readline(MAX_LINE)
        self.delimiter = next((d for d in ",;\t" if d in head), ",")
        try:
            names = next(csv.reader([head], delimiter=self.delimiter, strict=True), [])
        except csv.Error as error:
            raise fault("XL6301", f"{path}:1: {error}") from None
        self.names = tuple(name.strip() for name in names)
        if not any(self.names):
            raise fault("XL6301", f"{path}:1: a line with the names of the columns is missing")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise fault("XL6301", f"{path}:1: two columns are named '{twice}'")

    def _opened(self) -> IO[str]:
        return regular(self.path).open(encoding="utf-8-sig", errors="replace", newline="")

    def columns(self, asked: Asked) -> dict[str, Column]:
        """The inputs' columns, read in one pass. Raises SourceError, with line and column of a
        value that is not a number.
        """
        fields = {name: (self._parsed(one), len(names)) for name, (one, names) in asked.items()}
        used = [self.names.index(name) for _, names in asked.values() for name in names]
        layout = np.dtype([(name, dtype, (count,)) for name, (dtype, count) in fields.items()])
        held = {name: SpilledRows(str(self.path)) for name in asked}
        rows = 0
        with self._opened() as file:
            lines = _CountedLines(file, self.path)
            next(lines)
            for part in self._parts(lines, layout, used, asked):
                rows += len(part)
                for name, (one, _) in asked.items():
                    held[name].append(_shaped(part[name], one))
        if not rows:
            raise fault("XL6305", f"{self.path} has no rows")
        lined = lines.count == rows + 1
        return {
            name: CsvColumn(spilled.array(), str(self.path), lined=lined)
            for name, spilled in held.items()
        }

    def _parts(
        self, lines: _CountedLines, layout: np.dtype[Any], used: list[int], asked: Asked
    ) -> Iterator[Array]:
        while True:
            some = [line for line, _ in zip(lines, range(CHUNK_ROWS), strict=False)]
            if not some:
                return
            while sum(line.count('"') for line in some) % 2 and (more := next(lines, "")):
                some.append(more)  # a quoted value with a line break in it
            if not any(line.strip() for line in some):
                continue
            try:
                yield np.loadtxt(
                    some, layout, None, self.delimiter, usecols=used, ndmin=1, quotechar='"'
                )
            except ValueError as error:
                raise self._bad_cell(asked) or fault("XL6308", f"{self.path}: {error}") from None

    @staticmethod
    def _parsed(one: TrainingInput) -> np.dtype[Any]:
        """The dtype in which numbers are parsed: the input's, or a wider one of its kind."""
        dtype = one.type.dtype
        if dtype.is_float:
            return np.dtype(np.float64) if dtype.is_half else dtype.numpy
        return np.dtype(np.uint64) if dtype is DType.U64 else np.dtype(np.int64)

    def _bad_cell(self, asked: Asked) -> SourceError | None:
        """The error for the first value that is not a number of its input's type, at its place."""
        with self._opened() as file:
            lines = _CountedLines(file, self.path)
            reader = csv.reader(lines, delimiter=self.delimiter)
            next(reader)
            for record in reader:
                if not any(record):
                    continue
                for one, names in asked.values():
                    for name in names:
                        at = self.names.index(name)
                        text = record[at].strip() if at < len(record) else None
                        if text is None or not _is_number(text, one.type.dtype):
                            return self._cell_error(record, at, reader.line_num, lines.last, one)
        return None

    def _cell_error(
        self, record: list[str], at: int, line: int, raw: str, one: TrainingInput
    ) -> SourceError:
        whole = raw.rstrip("\r\n").split(self.delimiter) == record
        column = sum(len(text) + 1 for text in record[:at]) + 1 if whole else 1
        if at >= len(record):
            values = number_of(len(record), "value")
            problem = f"there are {values}, and the first line names {len(self.names)}"
            return SourceError(Diagnostic("XL6308", problem, Span(self.path, line, 1)))
        kind = "a number" if one.type.dtype.is_float else "an integer"
        shown = f"'{record[at][:40]}' is not {kind}" if record[at] else "nothing is here"
        problem = f"{shown}, and input '{one.name}' takes {kind} ({one.type.dtype})"
        span = Span(self.path, line, column, max(1, len(record[at])))
        return SourceError(Diagnostic("XL6308", problem, span))


class _CountedLines:
    """Counts the lines of a file. Raises SourceError for one longer than MAX_LINE characters."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self.file, self.path, self.count, self.last = file, path, 0, ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.last = self.file.readline(MAX_LINE)
        if not self.last:
            raise StopIteration
        self.count += 1
        if len(self.last) == MAX_LINE:
            raise fault(
                "XL6301", f"{self.path}:{self.count}: a line of over {MAX_LINE:,} characters"
            )
        return self.last


def _is_number(text: str, dtype: DType) -> bool:
    if not dtype.is_float:
        return re.fullmatch(r"[+-]?\d{1,19}", text) is not None
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _shaped(array: Array, one: TrainingInput) -> Array:
    """Values side by side, [rows, columns], as rows of an input, rounded if its dtype is half."""
    wanted = one.row.shape
    if one.type.dtype.is_half:
        array = array.astype(one.type.dtype.numpy)
    if not wanted:
        return array[:, 0]
    if len(wanted) > 1 and one.volume == array.shape[1]:
        return array.reshape(len(array), *(int(dim) for dim in wanted if isinstance(dim, int)))
    return array
