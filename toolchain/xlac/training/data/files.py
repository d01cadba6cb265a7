"""Opens the files and folders that a user names as columns for the inputs of a step."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from errno import ENOENT
from itertools import islice
from pathlib import Path

from xlac.training.data.array_files import npy, npz, safetensors
from xlac.training.data.column import Column, ShardedColumn, Table, TrainingInput, fault
from xlac.training.data.csv_file import CsvTable
from xlac.training.data.fitted import FittedColumn
from xlac.training.data.image_folder import ImageTable
from xlac.training.data.parquet import ParquetTable
from xlac.training.data.rows import ColumnData
from xlac_sdk.support.choices import nearest, similar

OPENERS: dict[str, Callable[[Path], Table]] = {
    ".npz": npz,
    ".safetensors": safetensors,
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".parquet": ParquetTable,
}
NAMED = re.compile(r"([A-Za-z_]\w*)=(.+)", re.DOTALL)
MAX_FILES = 100_000
Columns = Mapping[str, tuple[str, ...]]
"""By input: the names of its columns in the files, where these differ from the input's name."""


def file_data(
    texts: Sequence[str],
    inputs: Mapping[str, TrainingInput],
    columns: Columns | None = None,
    resize: bool = False,
) -> ColumnData:
    """Data from files: `FILE`, `NAME=FILE.npy`, patterns such as `shards/*.npz`, folders of images.
    The rows of files of one pattern are concatenated; different arguments give different columns.
    Raises SourceError and OSError.
    """
    chosen = dict(columns or {})
    _check_inputs(chosen, inputs)
    groups = [[_opened(path, name, resize) for path in paths] for name, paths in map(_named, texts)]
    by_input: dict[str, Column] = {}
    owners: dict[str, Path] = {}
    for group in groups:
        asked = _matching_inputs(group[0], inputs, chosen, alone=len(groups) == 1)
        for name in asked:
            if name in owners:
                problem = f"'{name}' is in {owners[name]} and in {group[0].path}"
                raise fault("XL6302", problem, "files of one pattern follow each other: 'shards/*'")
            owners[name] = group[0].path
        by_input |= _columns(group, asked)
    missing = [name for name in inputs if name not in by_input]
    if missing:
        raise _missing_column(missing[0], groups, inputs)
    return ColumnData({name: FittedColumn(by_input[name], one) for name, one in inputs.items()})


def _columns(
    group: Sequence[Table], asked: Mapping[str, tuple[TrainingInput, tuple[str, ...]]]
) -> dict[str, Column]:
    """The columns of some tables, concatenated."""
    if not asked:
        return {}
    shards: dict[str, list[Column]] = {name: [] for name in asked}
    for table in group:
        for _, names in asked.values():
            lacking = next((name for name in names if name not in table.names), None)
            if lacking is not None:
                problem = f"{table.path} has no '{lacking}', and {group[0].path} has"
                raise fault("XL6302", problem)
        if (
            isinstance(table, ImageTable)
            and isinstance(group[0], ImageTable)
            and table.classes != group[0].classes
        ):
            problem = f"{table.path} and {group[0].path} have folders of different names"
            raise fault("XL6302", problem, "the names of folders are the classes")
        for name, column in table.columns(asked).items():
            shards[name].append(column)
    return {
        name: some[0]
        if len(some) == 1 or asked[name][0].axis is None
        else ShardedColumn(name, some)
        for name, some in shards.items()
    }


def _matching_inputs(
    table: Table, inputs: Mapping[str, TrainingInput], chosen: Columns, alone: bool
) -> dict[str, tuple[TrainingInput, tuple[str, ...]]]:
    """The inputs that a table has columns for, with the names of these: as `chosen`, the input's
    own name, or `name.0`, `name.1` and so on. `alone`: no other table may have them. Raises
    SourceError.
    """
    matching = {}
    for name, one in inputs.items():
        if name in chosen:
            names = chosen[name]
            unknown = next((n for n in names if n not in table.names), None)
            if unknown is not None:
                if not alone:
                    continue
                hint = nearest(unknown, table.names)
                raise fault("XL6312", f"{table.path} has no column '{unknown}'", hint)
        elif name in table.names:
            names = (name,)
        else:
            names = tuple(n for n in table.names if re.fullmatch(rf"{re.escape(name)}\.\d+", n))
            if not names:
                continue
            expected = [f"{name}.{number}" for number in range(len(names))]
            if sorted(names) != sorted(expected):
                problem = (
                    f"{table.path}: the columns of '{name}' are not {name}.0 to {expected[-1]}"
                )
                raise fault("XL6312", problem)
            names = tuple(expected)
        matching[name] = one, names
    return matching


def _check_inputs(chosen: Columns, inputs: Mapping[str, TrainingInput]) -> None:
    for name in chosen:
        if name not in inputs:
            problem = f"there is no input '{name}'"
            raise fault("XL6312", problem, nearest(name, inputs))


def _missing_column(
    name: str, groups: Sequence[Sequence[Table]], inputs: Mapping[str, TrainingInput]
) -> Exception:
    have = [column for group in groups for column in group[0].names]
    files = ", ".join(str(group[0].path) for group in groups)
    shown = ", ".join(have[:12]) + (" …" if len(have) > 12 else "")
    problem = f"there is no '{name}' ({inputs[name].type}) in {files}, which has {shown}"
    free = [column for column in have if column not in inputs]
    close = similar(name, free) or free[:1]
    return fault(
        "XL6302",
        problem,
        f"--columns {name}={close[0] if close else 'COLUMN'} takes a column of another name",
    )


def _named(text: str) -> tuple[str, list[Path]]:
    """The name in an argument `NAME=FILE`, or "", and the files that it matches, sorted. Raises
    OSError and SourceError.
    """
    if "\0" in text:
        raise fault("XL6301", f"{text!r} names no file")
    match = NAMED.fullmatch(text)
    name = ""
    if match is not None and not Path(text).exists():
        name, text = match[1], match[2]
    if Path(text).exists():
        return name, [Path(text)]
    if not glob.has_magic(text):
        raise FileNotFoundError(ENOENT, "No such file or directory", text)
    named = islice(glob.iglob(text, recursive=True), MAX_FILES + 1)  # noqa: PTH207 text may be absolute
    paths = [Path(path) for path in sorted(named)]
    if not paths:
        raise fault("XL6301", f"no file is named as '{text}'")
    if len(paths) > MAX_FILES:
        raise fault("XL6301", f"more than {MAX_FILES:,} files are named as '{text}'")
    return name, paths


def absolute(text: str) -> str:
    """A data argument with an absolute path, for the same files from any working directory."""
    match = NAMED.fullmatch(text)
    if match is not None and not Path(text).exists():
        return f"{match[1]}={absolute(match[2])}"
    if Path(text).is_absolute():
        return text
    here = str(Path.cwd())
    plain = Path(text).exists() or not glob.has_magic(text)
    return os.path.normpath(os.path.join(here if plain else glob.escape(here), text))  # noqa: PTH118 a pattern is no path


def _opened(path: Path, name: str, resize: bool) -> Table:
    if path.is_dir():
        if name:
            raise fault("XL6301", f"{path} is a folder of images, which name their own columns")
        return ImageTable(path, resize)
    if path.suffix == ".npy":
        return npy(path, name or path.stem)
    if name:
        problem = f"{path} has columns with names of their own, and '{name}=' is for .npy"
        raise fault("XL6312", problem, f"--columns {name}=COLUMN")
    if path.suffix not in OPENERS:
        kinds = ", ".join([".npy", *OPENERS])
        problem = f"{path}: files of this kind are not read"
        raise fault("XL6301", problem, f"there are {kinds}, and folders of images")
    return OPENERS[path.suffix](path)


def column_names(texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The names of columns by input, from texts such as `a,b,c` and `pixel0..pixel783` (a range).
    Raises SourceError.
    """
    names_by_input: dict[str, tuple[str, ...]] = {}
    for name, text in texts.items():
        names: list[str] = []
        for part in text.split(","):
            match = re.fullmatch(r"(.*?)(\d+)\.\.(.*?)(\d+)", part)
            if match is None or match[1] != match[3]:
                names.append(part)
                continue
            first, last = int(match[2]), int(match[4])
            if not first <= last < first + MAX_FILES:
                raise fault("XL6312", f"'{part}' names no columns")
            width = len(match[2]) if match[2].startswith("0") and len(match[2]) > 1 else 0
            names += [f"{match[1]}{number:0{width}}" for number in range(first, last + 1)]
        names_by_input[name] = tuple(names)
    return names_by_input
