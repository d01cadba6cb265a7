"""`xlac bench` of several models or engines: timed in turn, in a table, as CSV, JSON and a plot."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xlac.cli.choice import artefact, chosen, is_artefact, pairs
from xlac.cli.measuring import Gate, calling, lowered_with_inputs, supplied_model
from xlac.cli.placing import told_placement
from xlac.cli.runs.times import spread

if TYPE_CHECKING:
    from xlac.cli.choice import Chosen
    from xlac.cli.measuring import SuppliedModel
    from xlac.debug.run_comparison import RunComparison
    from xlac.debug.timing import Samples

COLUMNS = (
    "model", "engine", "threads", "calls", "median_us", "p25_us", "p75_us", "best_us", "spread",
    "drift", "beside", "verdict", "ratio", "low", "high",
)  # fmt: skip
"""Columns of --csv: a row's times, and how it compares with the row `beside` it."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A call that is timed: its model, what runs it, with how many threads (0: as many as it
    chooses), and the place of the model among those given.
    """

    model: str
    engine: str
    threads: int
    place: int
    call: Callable[[], object]
    part: bool = False  # a stage of the row before, which is compared with nothing

    @property
    def title(self) -> str:
        """The name of the row."""
        return f"{self.model}, {self.engine}"


@dataclass(frozen=True, slots=True)
class BenchRow:
    """The times of a contender, and how they compare with those of another row."""

    contender: Contender
    samples: Samples
    beside: str = ""
    comparison: RunComparison | None = None

    def json(self) -> dict[str, Any]:
        """The row for JSON."""
        from xlac.debug.timing import unsteady

        one = self.contender
        named = {"model": one.model, "engine": one.engine, "threads": one.threads}
        told = named | spread(self.samples) | {"doubts": unsteady(self.samples)}
        if self.comparison is None:
            return told
        return told | {"beside": self.beside, "comparison": self.comparison.json()}


@dataclass(frozen=True, slots=True)
class BenchInputs:
    """The options about what is called: inputs that the user gave, limits on calls, and whether
    counters are read beside them.
    """

    given: tuple[str, ...]
    archive: Path | None
    seed: int
    timeout: float | None
    allow_long: bool
    copy_weights: bool
    counters: bool = False

    def read(self, choice: Chosen) -> SuppliedModel:
        """The model of a command's options, with these inputs."""
        return supplied_model(choice, self.given, self.archive, self.seed, self.copy_weights)


def engines_named(text: str) -> list[str]:
    """The engines of --against. Raises SourceError for an unknown one."""
    from xlac.debug.verify.engines import ENGINES
    from xlac_sdk.support.choices import chosen as known

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        known("engine", name, tuple(ENGINES))
    return names


def contenders(
    specs: Sequence[Path], engines: Sequence[str], inputs: BenchInputs, options: dict[str, Any]
) -> list[Contender]:
    """A contender for each model on the target, and one for each engine that it is compared with.
    Raises UnsupportedError for an engine that cannot run a model.
    """
    if all(map(is_artefact, specs)):
        artefact(specs[0])
    made: list[Contender] = []
    for place, spec in enumerate(specs):
        if is_artefact(spec):
            if engines:
                raise click.UsageError(f"--against is for models; {spec} is built already")
            made.append(_artefact(spec, place, inputs))
        else:
            made += _compiled(spec, place, engines, inputs, options)
    return made


def _compiled(
    spec: Path, place: int, engines: Sequence[str], inputs: BenchInputs, options: dict[str, Any]
) -> list[Contender]:
    from xlac.cli.entry_run import beginning
    from xlac.debug.verify.engines import ENGINES, EngineUnavailable
    from xlac.driver import executable
    from xlac_sdk.source import Diagnostic, UnavailableError

    choice = chosen(**{**options, "spec": spec}, usual="step")
    read = inputs.read(choice)
    if read.model.place:
        if engines:
            raise click.UsageError(f"--against is for models on one target, and {spec} has places")
        return stages(choice, read, place, inputs)
    measured = lowered_with_inputs(choice, read, inputs.copy_weights)
    compiled = executable(measured.lowered, measured.backend)
    beginning(measured.graphs)(compiled)
    arrays = [measured.arrays[slot.name] for slot in compiled.program.inputs]
    with calling(
        compiled.program, choice.target, choice.threads, inputs.timeout, inputs.allow_long
    ):
        compiled(*arrays)
    name = measured.model.name
    made = [
        Contender(name, f"xlac {choice.target}", choice.threads, place, lambda: compiled(*arrays))
    ]
    for engine in engines:
        try:
            call = ENGINES[engine](measured.model, spec, measured.arrays, choice.threads)
            call()
        except EngineUnavailable as why:
            problem = f"{engine} cannot run {name}: {why}"
            raise UnavailableError(Diagnostic("XL6012", problem)) from None
        threads = 0 if engine == "jax" else choice.threads
        made.append(Contender(name, engine, threads, place, call))
    return made


def stages(choice: Chosen, read: SuppliedModel, place: int, inputs: BenchInputs) -> list[Contender]:
    """A model with places, and each of its stages alone."""
    from xlac.driver import compiled_in_stages

    with told_placement():
        compiled = compiled_in_stages(read.model, choice.target, choice.options)
    arrays = {slot.name: read.arrays[slot.name] for slot in compiled.program.inputs}
    with calling(
        compiled.program, choice.target, choice.threads, inputs.timeout, inputs.allow_long
    ):
        calls = compiled.stage_calls(arrays)
    name, targets = read.model.name, [stage.target.name for stage in compiled.stages]
    whole = f"xlac {' and '.join(dict.fromkeys(targets))}"
    given = list(arrays.values())
    made = [Contender(name, whole, choice.threads, place, lambda: compiled(*given))]
    for number, (target, call) in enumerate(zip(targets, calls, strict=True), 1):
        engine = f"stage {number} on {target}"
        made.append(Contender(name, engine, choice.threads, place, call, part=True))
    return made


def stages_bench(
    choice: Chosen, read: SuppliedModel, inputs: BenchInputs, seconds: float, gate: Gate
) -> int:
    """Times a model with places, and its stages in turn with it."""
    if gate.before is not None or inputs.counters:
        raise click.UsageError("--baseline and --counters are for models on one target")
    show(timed(stages(choice, read, 0, inputs), seconds, gate.tolerance), gate.as_json, None, None)
    return 0


def _artefact(spec: Path, place: int, inputs: BenchInputs) -> Contender:
    from xlac.artefact.loader import load
    from xlac.cli.inputs import drawn

    model = load(spec, copy_weights=inputs.copy_weights)
    given = pairs(inputs.given, "--input")
    arrays = [*drawn(model.program, given, inputs.archive, inputs.seed).values()]
    facts = model.manifest
    with calling(model.program, facts.target, 1, inputs.timeout, inputs.allow_long):
        model(*arrays)
    return Contender(facts.name, f"xlac {facts.target}, built", 1, place, lambda: model(*arrays))


def timed(entries: Sequence[Contender], seconds: float, tolerance: float) -> list[BenchRow]:
    """Times all contenders in turn. Engines are compared with our program of the same model, the
    other models with the first one.
    """
    from xlac.cli.progress import current
    from xlac.debug import timing
    from xlac.debug.run_comparison import of_bursts

    tell = partial(current().count, "measuring, in bursts")
    samples = timing.take_turns([entry.call for entry in entries], seconds, tell=tell)
    rows = [BenchRow(entry, taken) for entry, taken in zip(entries, samples, strict=True)]
    first = {row.contender.place: row for row in reversed(rows)}
    compared: list[BenchRow] = []
    for row in rows:
        own = first[row.contender.place]
        beside = own if own is not row else rows[0]
        if beside is not row and not row.contender.part:
            comparison = of_bursts(
                beside.samples.burst_medians, row.samples.burst_medians, tolerance
            )
            row = replace(row, beside=beside.contender.title, comparison=comparison)
        compared.append(row)
    return compared


def show(rows: Sequence[BenchRow], as_json: bool, as_csv: Path | None, plot: Path | None) -> None:
    """Prints the rows, and writes them to the files asked for."""
    if as_json:
        click.echo(json.dumps({"rows": [row.json() for row in rows]}))
    else:
        click.echo(table(rows))
    for file, make in ((as_csv, csv_of), (plot, plot_of)):
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(make(rows), encoding="utf-8")


def plot_of(rows: Sequence[BenchRow]) -> str:
    """The rows as bars, in SVG."""
    from xlac.debug.report.bars import TimeBar, svg

    bars: list[TimeBar] = []
    for row in rows:
        times = spread(row.samples)
        low, half, high = (times[f"{name}_us"] for name in ("p25", "median", "p75"))
        bars.append(TimeBar(row.contender.title, row.contender.engine, half, low, high))
    return svg(bars, "time of a call: median, and quartiles")


def table(rows: Sequence[BenchRow]) -> str:
    """The rows as text."""
    from xlac.debug.timing import unsteady

    titles = [row.contender.title for row in rows]
    width = max(map(len, titles))
    lines: list[str] = []
    for row, title in zip(rows, titles, strict=True):
        times = spread(row.samples)
        low, half, high = (times[f"{name}_us"] for name in ("p25", "median", "p75"))
        threads = f"{row.contender.threads or '?'} thread(s)"
        lines.append(
            f"{title.ljust(width)}  {half:12.2f} us median, quartiles {low:.2f}–{high:.2f}, "
            f"{times['calls']} samples, {threads}"
        )
        if row.comparison is not None:
            lines.append(f"{' ' * width}  beside {row.beside}: {row.comparison}")
        lines += (f"{' ' * width}  unreliable: {doubt}" for doubt in unsteady(row.samples))
    return "\n".join(lines)


def csv_of(rows: Sequence[BenchRow]) -> str:
    """The rows as CSV, with a line of titles."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        told = row.json()
        writer.writerow(told | told.get("comparison", {}))
    return text.getvalue()
