"""Reads, validates and merges a spec and its includes: every entry with its place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from xlac.spec.report import Place, Report
from xlac.spec.schema import interface, pipelining, schema, strict, training
from xlac.spec.schema.fields import shown
from xlac.spec.schema.messages import explain
from xlac.spec.text.tree import Path_, Source
from xlac.spec.text.yaml import read
from xlac_sdk.source import SourceError, Span

MAX_FILES = 100


T = TypeVar("T")
_NAMED = tuple(
    "dims params inputs state ops blocks graph extents mesh shard place optimizers rates".split()
)


@dataclass(frozen=True, slots=True)
class SpecEntry(Generic[T]):
    """The value of one key, and its place."""

    spec: T
    place: Place


@dataclass
class Merged:
    """A document merged with its includes."""

    at: Place
    name: str = ""
    doc: str = ""
    precision: str = ""
    dims: dict[str, SpecEntry[Any]] = field(default_factory=dict)
    params: dict[str, SpecEntry[Any]] = field(default_factory=dict)
    inputs: dict[str, SpecEntry[str | interface.InputSpec]] = field(default_factory=dict)
    state: dict[str, SpecEntry[interface.StateSpec]] = field(default_factory=dict)
    ops: dict[str, SpecEntry[schema.OpSpec]] = field(default_factory=dict)
    blocks: dict[str, SpecEntry[schema.BlockSpec]] = field(default_factory=dict)
    graph: dict[str, SpecEntry[Any]] = field(default_factory=dict)
    outputs: dict[str, SpecEntry[Any]] = field(default_factory=dict)
    extents: dict[str, SpecEntry[list[str | None]]] = field(default_factory=dict)
    mesh: dict[str, SpecEntry[int | None]] = field(default_factory=dict)
    shard: dict[str, SpecEntry[list[Any]]] = field(default_factory=dict)
    place: dict[str, SpecEntry[tuple[str, ...]]] = field(default_factory=dict)
    weights: SpecEntry[Any] | None = None
    pipeline: SpecEntry[pipelining.PipelineSpec] | None = None
    train: SpecEntry[training.TrainSpec] | None = None
    optimizers: dict[str, SpecEntry[training.OptimizerSpec]] = field(default_factory=dict)
    rates: dict[str, SpecEntry[training.RateSpec]] = field(default_factory=dict)
    outputs_place: Place | None = None


def read_document(file: Path, report: Report, allow_outside: bool = False) -> Merged | None:
    """Reads a spec and its includes. Mistakes go to the report; returns None if the file cannot be
    read at all.
    """
    merged: Merged | None = None
    folder = resolved(file).parent
    seen: set[Path] = set()
    pending: list[tuple[Path, Span | None]] = [(file, None)]
    while pending:
        path, asked = pending.pop(0)
        real = resolved(path)
        if real in seen:
            continue
        seen.add(real)
        if asked is not None and not allow_outside and not real.is_relative_to(folder):
            report.add(
                "XL3002",
                f"{path.name!r} is outside the spec's folder",
                asked,
                "--allow-outside permits it",
            )
            continue
        if len(seen) > MAX_FILES:
            report.add("XL4017", f"more than {MAX_FILES} files are included", asked)
            break
        try:
            source = read(path)
        except SourceError as error:
            for d in error.diagnostics:
                report.add(d.code, d.message, d.span or asked, d.hint)
            continue
        document = validate(source, report)
        if merged is None:
            merged = Merged(Place(source))
            merged.name = file.stem
        if document is None:
            continue
        pending += [
            (path.parent / i, Place(source, ("include", n)).span)
            for n, i in enumerate(document.include)
        ]
        _merge(merged, document, Place(source), report, first=asked is None)
    return merged


def merged_with(source: Source, report: Report) -> Merged:
    """The document of one text. Mistakes go to the report."""
    merged = Merged(Place(source))
    document = validate(source, report)
    if document is not None:
        _merge(merged, document, Place(source), report, first=True)
    return merged


def resolved(path: Path) -> Path:
    """The path with links followed; unchanged where a link is broken or circular."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def _merge(
    merged: Merged, document: schema.Document, place: Place, report: Report, first: bool
) -> None:
    if first:
        merged.name, merged.doc = document.model or merged.name, document.doc
    if document.precision:
        if merged.precision and merged.precision != document.precision:
            report.add(
                "XL1021",
                f"precision is {merged.precision!r} in another file",
                place.at("precision").span,
            )
        merged.precision = merged.precision or document.precision
    for section in _NAMED:
        _add(
            getattr(merged, section), section, getattr(document, section), place.at(section), report
        )
    outputs = document.outputs
    if isinstance(outputs, list):
        _add(
            merged.outputs,
            "outputs",
            dict(_listed(outputs, place.at("outputs"), report)),
            place.at("outputs"),
            report,
        )
    elif outputs is not None:
        _add(merged.outputs, "outputs", outputs, place.at("outputs"), report)
    if outputs is not None and merged.outputs_place is None:
        merged.outputs_place = place.at("outputs")
    for single in ("weights", "pipeline", "train"):
        if (spec := getattr(document, single)) is not None:
            if (other := getattr(merged, single)) is not None:
                report.add(
                    "XL1021",
                    f"{single} is given here and at {other.place.key}",
                    place.at(single).key,
                )
            else:
                setattr(merged, single, SpecEntry(spec, place.at(single)))


def _listed(outputs: list[str], place: Place, report: Report) -> Iterator[tuple[str, str]]:
    for i, text in enumerate(outputs):
        if text in outputs[:i]:
            report.add("XL1021", f"output {text!r} is listed twice", place.at(i).span)
        yield text, text


def _add(
    into: dict[str, SpecEntry[Any]],
    section: str,
    entries: dict[str, Any],
    place: Place,
    report: Report,
) -> None:
    for number, (key, spec) in enumerate(entries.items()):
        at = place.at(key)
        if section == "outputs" and isinstance(place.source.find(place.path)[0].data, list):
            at = place.at(number)
        if key in into:
            report.add(
                "XL1021",
                f"{key!r} is given here and at {into[key].place.key}",
                at.key,
                "what is included is merged by name; give one of them another name",
            )
        else:
            into[key] = SpecEntry(spec, at)


def validate(source: Source, report: Report) -> schema.Document | None:
    """The valid parts of one file's document; mistakes go to the report."""
    data = source.root.plain()
    if not isinstance(data, dict):
        report.add(
            "XL1012",
            f"a spec is a mapping, found {shown(data)}",
            Place(source).span,
            "it starts with 'xlac: 1'",
        )
        return None
    wrong: dict[Path_, bool] = {}
    for _ in range(2):
        try:
            return schema.Document.model_validate(data)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                path, in_key = explain(source, fault, report)
                wrong[path] = wrong.get(path, False) or in_key
        if "xlac" not in data:
            data["xlac"] = strict.VERSION
        for path, in_key in wrong.items():
            _drop(data, path, in_key)
            if len(path) > 1 and not (in_key and len(path) == 2):
                report.broken.add((str(path[0]), str(path[1])))
    return None


def _drop(data: Any, path: Path_, in_key: bool) -> None:
    """Removes an invalid entry, so that the rest can be checked."""
    if len(path) == 1 and path[0] == "xlac":
        data["xlac"] = strict.VERSION
        return
    depth = (
        1
        if path[:1]
        and path[0]
        in ("weights", "train", "outputs", "extents", "include", "doc", "model", "precision")
        else 2
    )
    named_wrong = in_key and len(path) <= depth
    path = path[:depth]
    for key in path[:-1]:
        data = data.get(key) if isinstance(data, dict) else None
    if isinstance(data, dict) and path and path[-1] in data:
        if len(path) == 2 and path[0] == "graph" and not named_wrong:
            # the name stays known, so that entries that use it are not reported as well
            data[path[-1]] = BROKEN
        else:
            del data[path[-1]]


class _Broken(str):
    """Text that is told from a spec's by identity."""

    __slots__ = ()


# placeholder for an entry of the graph that was already reported
BROKEN = _Broken("0")
