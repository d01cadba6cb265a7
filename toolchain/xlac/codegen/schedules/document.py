"""Schedules as a YAML document: rewrites that are made or left out, and where values are computed,
by their names; and a mapping of groups, each a mapping of its parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from xlac.codegen.schedules import schedule, tuned
from xlac.codegen.schedules.decisions import PartMisfit
from xlac.codegen.schedules.schedule import Misfit, Schedule
from xlac.codegen.schedules.templates import TEMPLATES
from xlac.codegen.schedules.tuned import SECTION, TuningRecords, differences
from xlac.fusion.group import Placement
from xlac.fusion.placement import Placements
from xlac.passes.rewrite.choices import APPLIED, LEFT, WORDS
from xlac.spec.text import yaml
from xlac.spec.text.tree import Source
from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.target import Target

HEAD, PLACES, REWRITES, SHIPPED = "schedules", "placements", "rewrites", "shipped"
KNOWN = (HEAD, PLACES, REWRITES, SECTION, SHIPPED)

Given = str | os.PathLike[str] | Mapping[str, Any] | None
"""A file of schedules, or its contents."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Schedules that a user asked for: by the name of a group's structure, and by part."""

    groups: Mapping[str, Mapping[str, Schedule]] = field(default_factory=dict)
    placements: Placements = field(default_factory=Placements)
    rewrites: Mapping[str, bool] = field(default_factory=dict)  # whether each is made, by name
    shipped: bool = True  # what ships with the compiler is used too (`database.py`)
    every_rewrite: bool = False  # passes tell also of rewrites that they would not make
    source: Source | None = None  # the document that it was read from
    # what `xlac tune` measured, if it wrote the document: then the groups may be of other models
    tuned: TuningRecords | None = None

    def of(self, group: str) -> Mapping[str, Schedule]:
        """The schedules asked for a group, by part; empty if there are none."""
        return self.groups.get(group, {})

    def require(self, target: Target) -> None:
        """Raises SourceError if the schedules were tuned on a machine that differs from a target
        in what they depend on.
        """
        reasons = [] if self.tuned is None else differences(self.tuned.machine, target)
        if reasons:
            problem = f"these schedules were tuned for another machine: {'; '.join(reasons)}"
            hint = "`xlac tune` tunes for this one; without the file the compiler chooses"
            raise SourceError(Diagnostic("XL4114", problem, self._span((), top=SECTION), hint))

    def unfit(self, group: str, error: PartMisfit) -> SourceError:
        """The error for a schedule that does not fit its group."""
        place, misfit = (group, error.part, *error.misfit.path), error.misfit
        problem = f"the schedule of {' '.join(map(str, place))} does not fit: {misfit.problem}"
        return SourceError(Diagnostic("XL4112", problem, self._span(place), misfit.hint))

    def idle(self, group: str, part: str, parts: Iterable[str]) -> SourceError:
        """The error for a schedule of a part that its group does not have."""
        problem = f"group {group} has no part '{part}' with these schedules"
        hint = f"its parts: {', '.join(parts)}"
        return SourceError(Diagnostic("XL4112", problem, self._span((group, part), True), hint))

    def elsewhere(self, reasons: Mapping[str, str]) -> SourceError:
        """The error for values that are not computed where it was asked, with the reasons."""
        hint = "`xlac inspect --stage schedules` writes those about which there is a choice"
        return SourceError(
            *(
                Diagnostic(
                    "XL4112",
                    f"{name} cannot be {self.placements.asked[name].value}: {why}",
                    self._span((name,), top=PLACES),
                    hint,
                )
                for name, why in reasons.items()
            )
        )

    def strange(
        self, groups: Iterable[str], values: Iterable[str], rewrites: Iterable[str]
    ) -> SourceError:
        """The error for schedules of groups, placements of values, and rewrites, that the model
        lacks.
        """
        hint = "`xlac inspect --stage schedules` writes those that it has"
        lacking = [("group", HEAD, name) for name in groups]
        lacking += [("value", PLACES, name) for name in values]
        lacking += [("rewrite", REWRITES, name) for name in rewrites]
        return SourceError(
            *(
                Diagnostic(
                    "XL4113",
                    f"the model has no {what} {name}",
                    self._span((name,), True, section),
                    hint,
                )
                for what, section, name in lacking
            )
        )

    def _span(self, path: tuple[str | int, ...], key: bool = False, top: str = HEAD) -> Span | None:
        if self.source is None:
            return None
        return (self.source.key_span if key else self.source.span)((top, *path))


def read(given: Given) -> Asked:
    """The schedules of a file, or of a mapping with the contents of one.

    Raises SourceError for a file that cannot be read, and for every invalid entry.
    """
    if given is None:
        return Asked()
    if isinstance(given, Mapping):
        return _entries(given, None)
    source = yaml.read(Path(given))
    return _entries(source.root.plain(), source)


def _entries(data: Any, source: Source | None) -> Asked:
    problems: list[Diagnostic] = []
    schedules: dict[str, dict[str, Schedule]] = {}
    asked = Asked(schedules, source=source)

    def wrong(path: tuple[str | int, ...], problem: str, hint: str = "", top: str = HEAD) -> None:
        where = " ".join(map(str, path))
        text = f"{where}: {problem}" if where else problem
        problems.append(Diagnostic("XL4111", text, asked._span(path, not path, top), hint))

    groups = data.get(HEAD) if isinstance(data, Mapping) else None
    strange = [key for key in data if key not in KNOWN] if isinstance(data, Mapping) else []
    if not isinstance(groups, Mapping) or strange:
        wrong(
            (),
            f"it must be a mapping of '{HEAD}' to schedules by group, beside '{PLACES}' of values, "
            f"'{REWRITES}', '{SHIPPED}', '{SECTION}' where `xlac tune` wrote it, and nothing else",
            top=str(strange[0]) if strange else HEAD,
        )
        groups = {}
    for group, parts in groups.items():
        if not isinstance(parts, Mapping):
            wrong((group,), "a group's schedules must be a mapping by part")
            continue
        schedules[group] = {}
        for part, entry in parts.items():
            try:
                schedules[group][part] = schedule.from_data(entry, TEMPLATES)
            except Misfit as misfit:
                wrong((group, part, *misfit.path), misfit.problem, misfit.hint)
    words: dict[str, str] = {}
    if isinstance(data, Mapping) and PLACES in data:
        places = _words(data[PLACES], [p.value for p in Placement], partial(wrong, top=PLACES))
        words |= places
        asked = replace(asked, placements=Placements({n: Placement(w) for n, w in places.items()}))
    if isinstance(data, Mapping) and REWRITES in data:
        rewrites = _words(data[REWRITES], [*WORDS], partial(wrong, top=REWRITES))
        words |= rewrites
        asked = replace(asked, rewrites={name: WORDS[word] for name, word in rewrites.items()})
    if isinstance(data, Mapping) and SHIPPED in data:
        asked = replace(asked, shipped=data[SHIPPED] is not False)
        if not isinstance(data[SHIPPED], bool):
            wrong((), "it must be true or false", top=SHIPPED)
    if isinstance(data, Mapping) and SECTION in data:
        try:
            asked = replace(asked, tuned=tuned.from_data(data[SECTION], schedules, words))
        except ValueError as error:
            wrong((), f"{SECTION}: {error}", "`xlac tune` writes it", SECTION)
    if problems:
        raise SourceError(*problems)
    return asked


def _words(
    given: Any, words: Sequence[str], wrong: Callable[[tuple[str | int, ...], str], None]
) -> dict[str, str]:
    """A mapping of names to some words; `wrong` is told what is wrong with an entry."""
    if not isinstance(given, Mapping):
        wrong((), f"it must be a mapping of names to {', '.join(words)}")
        return {}
    for name, word in given.items():
        if not isinstance(word, str) or word not in words:
            wrong((name,), f"it must be one of {', '.join(words)}, not {word!r}")
    return {name: word for name, word in given.items() if isinstance(word, str) and word in words}


def write(
    groups: Mapping[str, Mapping[str, Schedule]],
    titles: Mapping[str, str],
    head: str,
    records: TuningRecords | None = None,
    placements: Mapping[str, Placement] | None = None,
    rewrites: Mapping[str, bool] | None = None,
) -> str:
    """The document of schedules, each group, value and rewrite under its title, after what was
    measured, if it was; `read` is the inverse.
    """
    lines = [f"# {head}", *([] if records is None else tuned.section(records))]
    for section, words in (
        (REWRITES, _made(rewrites or {})),
        (PLACES, {name: where.value for name, where in (placements or {}).items()}),
    ):
        lines += [f"{section}:"] if words else []
        for name, word in words.items():
            lines += [f"  # {titles[name]}", f"  {name}: {word}"]
    lines.append(f"{HEAD}:" if groups else f"{HEAD}: {{}}")
    for group, parts in groups.items():
        lines += [f"  # {titles[group]}", f"  {group}:"]
        for part, settled in parts.items():
            lines.append(f"    {part}:")
            lines += (f"      {line}" for line in fields_of(settled))
    return "\n".join(lines) + "\n"


def of_records(records: TuningRecords, model: str, target: str) -> str:
    """The document of what tuning found."""
    titles = {name: group.what for name, group in records.groups.items()}
    titles |= {name: value.what for name, value in records.values.items()}
    head = f"Tuned schedules of {model} for {target}: docs/TUNING.md"
    return write(
        records.schedules(), titles, head, records, records.placements(), records.rewrites()
    )


def _made(rewrites: Mapping[str, bool]) -> dict[str, str]:
    return {name: APPLIED if made else LEFT for name, made in rewrites.items()}


def data_of(records: TuningRecords) -> dict[str, Any]:
    """The same as plain data."""
    return {
        SECTION: tuned.to_data(records),
        REWRITES: _made(records.rewrites()),
        PLACES: {name: where.value for name, where in records.placements().items()},
        HEAD: {
            group: {part: schedule.to_data(settled) for part, settled in parts.items()}
            for group, parts in records.schedules().items()
        },
    }


def fields_of(settled: Schedule) -> list[str]:
    """A schedule as lines of YAML, one for each field, and one for each element of a
    list of parts.
    """
    lines: list[str] = []
    for name, value in schedule.to_data(settled).items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines += [f"{name}:", *(f"- {_flow(part)}" for part in value)]
        else:
            lines.append(f"{name}: {_flow(value)}")
    return lines


def _flow(value: Any) -> str:
    match value:
        case dict():
            return f"{{{', '.join(f'{name}: {_flow(part)}' for name, part in value.items())}}}"
        case list():
            return f"[{', '.join(map(_flow, value))}]"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
    return str(value)
