"""A map of a model over the rows of files, in parts that processes write alone.

A part is named by its rows and appears whole, by renaming, so it may be computed again, or twice
at once, and what is there already is not computed again.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import numpy as np

from xlac.artefact.loader import Loaded, load
from xlac.ir.types import Type
from xlac.training.data.batches import Batch, EpochOrder
from xlac.training.data.files import NAMED, file_data
from xlac.training.data.fitted import training_inputs
from xlac.training.data.rows import ColumnData
from xlac_sdk.dtypes import Array
from xlac_sdk.host import manifest
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.hashing import blake2b

RECORD = "map.json"

RowRange = tuple[int, int]
"""The first row of a part, and the one after its last."""


@dataclass(frozen=True, slots=True)
class MapJob:
    """What every process needs to know: an artefact's folder, texts that name files of rows as
    those of `xlac train --data`, the folder of the parts, and the rows of a part. All processes see
    these folders. `state` names the contents of model and files, so that a process that has opened
    others does not take them for these.
    """

    model: str
    files: tuple[str, ...]
    out: str
    batch: int
    state: str

    @staticmethod
    def of(model: Path, files: Sequence[str], out: Path, batch: int) -> MapJob:
        """The job for the present contents of a model's folder and of files. Raises SourceError for
        a folder that is no artefact.
        """
        texts = tuple(map(_absolute, files))
        hashes = json.dumps(dict(manifest.read(model).files), sort_keys=True)
        found = sorted(
            name
            for text in texts
            for name in glob.iglob(_file(text), recursive=True)  # noqa: PTH207 text may be absolute
        )
        stats = [(name, Path(name).stat()) for name in found]
        listed = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        state = blake2b(f"{hashes}\n{listed}".encode(), digest_size=16).hexdigest()
        return MapJob(str(model.resolve()), texts, str(out.resolve()), batch, state)

    def place(self, rows: RowRange) -> Path:
        """The file of a part."""
        return Path(self.out) / f"part-{rows[0]:012}-{rows[1]:012}.npz"


def all_parts(job: MapJob) -> list[RowRange]:
    """Every part, in the order of rows. Raises SourceError for data that do not fit the model."""
    _, data = _opened(job)
    starts = range(0, data.rows, job.batch)
    return [(start, min(start + job.batch, data.rows)) for start in starts]


def fixed_batch(model: Loaded) -> int | None:
    """The rows of a call, where the model has them fixed. Raises SourceError for inputs that do not
    all begin with the same axis.
    """
    inputs = training_inputs(_types(model), "", {})
    size = next(iter(inputs.values())).type.shape[0]
    return size if isinstance(size, int) else None


def begin(job: MapJob) -> list[RowRange]:
    """The parts that are not yet there. Raises SourceError for a folder of another map."""
    record = {"files": list(job.files), "batch": job.batch, "state": job.state}
    file = Path(job.out) / RECORD
    if file.exists():
        try:
            before = json.loads(file.read_text("utf-8"))
        except ValueError:
            before = {}
        for name, value in record.items():
            if before.get(name) != value:
                told = "model, or files, were others"
                if name != "state":
                    told = f"{name} was {before.get(name)}"
                problem = f"{job.out} has parts of another map: its {told}"
                hint = "give another folder to -o, or remove this one"
                raise SourceError(Diagnostic("XL7815", problem, hint=hint))
    else:
        _write(file, json.dumps(record, indent=1).encode())
    return [rows for rows in all_parts(job) if not job.place(rows).exists()]


def compute(job: MapJob, rows: RowRange) -> RowRange:
    """Computes one part and writes it, unless it is there. Raises SourceError for an output that is
    not by rows.
    """
    place = job.place(rows)
    if place.exists():
        return rows
    model, data = _opened(job)
    inputs = _rows(job, data, rows)
    count = rows[1] - rows[0]
    fixed = fixed_batch(model)
    if fixed is not None and fixed != count:
        inputs = {name: _padded(array, fixed) for name, array in inputs.items()}
    results = model(**inputs)
    outputs = results if isinstance(results, dict) else {model.outputs[0]: results}
    for name, array in outputs.items():
        if array.shape[:1] != (fixed or count,):
            problem = f"output '{name}' is {array.shape}, and not by the {count} rows of its input"
            raise SourceError(Diagnostic("XL7815", problem, hint="only such outputs can be mapped"))
    temporary = place.with_name(f".{place.name}.{uuid4().hex}")
    with temporary.open("wb") as file:
        np.savez(file, **{name: array[:count] for name, array in outputs.items()})
        file.flush()
        os.fsync(file.fileno())
    try:
        temporary.replace(place)
    except FileNotFoundError:  # another process has written the last part, and tidied up
        if not place.exists():
            raise
    return rows


def tidy(job: MapJob) -> None:
    """Removes what killed processes left, once all parts are there."""
    for left in Path(job.out).glob(".part-*"):
        left.unlink(missing_ok=True)


def _absolute(text: str) -> str:
    """A file, a pattern, or NAME=FILE, as other processes read it."""
    file = _file(text)
    return text[: len(text) - len(file)] + str(Path(file).absolute())


def _file(text: str) -> str:
    named = NAMED.fullmatch(text)
    return named[2] if named else text


def _write(file: Path, content: bytes) -> None:
    temporary = file.with_name(f".{file.name}.{uuid4().hex}")
    temporary.write_bytes(content)
    temporary.replace(file)


@lru_cache(maxsize=2)
def _opened(job: MapJob) -> tuple[Loaded, ColumnData]:
    """The model and the data, opened once in a process."""
    model = load(job.model)
    if model.program.state_bytes:
        problem = "a model with state computes a row from those before it, and parts have no order"
        raise SourceError(Diagnostic("XL7815", problem))
    return model, file_data(list(job.files), training_inputs(_types(model), "", {}))


def _types(model: Loaded) -> dict[str, Type]:
    return {slot.name: Type(slot.dtype, slot.shape) for slot in model.program.inputs}


def _rows(job: MapJob, data: ColumnData, rows: RowRange) -> Batch:
    """Some rows of all inputs."""
    return next(data.batches(EpochOrder(job.batch), rows[0] // job.batch))


def _padded(array: Array, count: int) -> Array:
    """Rows, the last one repeated until there are `count`."""
    more = np.repeat(array[-1:], count - len(array), axis=0)
    return np.concatenate([array, more])
