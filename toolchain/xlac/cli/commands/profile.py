"""`xlac profile`: which kernels and which lines of the spec a call spends its time in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from xlac.cli.choice import chosen
from xlac.cli.measuring import calling, lowered_with_inputs, measured_options, supplied_model
from xlac_sdk.support.counts import number_of


@click.command(name="profile")
@measured_options
@click.option(
    "--top", type=click.IntRange(min=1), default=30, show_default=True, help="Rows of each table."
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the call of median time as a Chrome trace (chrome://tracing, Perfetto), "
    "a track a thread.",
)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the page of `xlac report`, with these times.",
)
@click.option(
    "--csv",
    "as_csv",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a line for each kernel as CSV.",
)
@click.option(
    "--counters",
    "with_counters",
    is_flag=True,
    help="Count cycles, instructions and misses of each kernel, called alone.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    given: tuple[str, ...],
    archive: Path | None,
    seed: int,
    seconds: float,
    top: int,
    trace: Path | None,
    html: Path | None,
    as_csv: Path | None,
    with_counters: bool,
    as_json: bool,
    timeout: float | None,
    allow_long: bool,
    copy_weights: bool,
    **options: Any,
) -> None:
    """Compile SPEC with stamps between its kernels, call it, and tell where the time goes. Inputs
    that are not given are random.

    A kernel's time is the median over the calls. Lines of the spec that share a kernel share a row.
    """
    from xlac.cli.entry_run import beginning
    from xlac.cli.progress import current
    from xlac.debug import profile
    from xlac.debug.report.document import ReportData
    from xlac.debug.report.page import page
    from xlac.debug.report.pass_changes import PassRecorder
    from xlac.debug.report.stage_times import StageTimes

    choice, passes, stages = chosen(**options, usual="step"), PassRecorder(), StageTimes()
    with stages.watching("reading the model"):
        read = supplied_model(choice, given, archive, seed, copy_weights)
        model, graphs, arrays, backend, _, lowered = lowered_with_inputs(
            choice, read, copy_weights, [passes] if html else ()
        )
    inputs = [arrays[slot.name] for slot in lowered.program.inputs]
    current().stage("measuring")
    with calling(lowered.program, choice.target, choice.threads, timeout, allow_long):
        profiled = profile.take(lowered, backend, inputs, seconds, beginning(graphs))
    if trace is not None:
        trace.write_text(json.dumps(profile.chrome_trace(profiled, model.name)), encoding="utf-8")
    if html is not None:
        data = ReportData(lowered, model.graph, backend, passes, stages)
        data.measured(profiled)
        _write(html, page(data.json(), opens="time"))
    told, counters = _object(profiled, model.name, choice), None
    if with_counters:
        from xlac.debug.counters.by_kernel import counted_kernels

        counters = counted_kernels(lowered, backend, profiled, seconds / 10, top)
        told["counters"] = counters
    if as_csv is not None:
        _write(as_csv, _csv(told["kernels"]))
    if as_json:
        click.echo(json.dumps(told))
        return
    _tell(profiled, model.name, choice, top, trace)
    if counters is not None:
        _counters(counters)


def _counters(found: list[dict[str, Any]]) -> None:
    """Prints what was counted of each group's kernels, and why counters are missing."""
    from xlac.debug.counters.by_kernel import rows, unavailable

    heads, *cells = rows(found)
    click.echo()
    if len(heads) > 2:
        _table(heads, cells, len(heads) - 1)
    for line in unavailable(found):
        click.echo(line)


def _tell(profiled: Any, model: str, choice: Any, top: int, trace: Path | None) -> None:
    """Prints the tables, and what is missing in them."""
    click.echo(
        f"{model} on {choice.target}, {choice.threads} thread(s): "
        f"{_time(profiled.seconds)} a call in "
        f"{number_of(len(profiled.rows), 'step')}, over {number_of(profiled.calls, 'call')}"
    )
    _kernels(profiled, top)
    _lines(profiled, top)
    if profiled.lost:
        click.echo(
            f"note: the log of a call is full; at least {profiled.lost} steps are missing", err=True
        )
    if trace is not None and profiled.lost_parts:
        click.echo(
            f"note: the log of a call is full; {profiled.lost_parts} parts that threads ran "
            "are missing in the trace",
            err=True,
        )
    if trace is not None:
        click.echo(f"trace of the call of median time: {trace}")


def _kernels(profiled: Any, top: int) -> None:
    from xlac.debug.profile import place

    rows = sorted(profiled.rows, key=lambda row: -row.seconds)
    cells: list[tuple[str, ...]] = [
        (
            _share(row.seconds, profiled),
            _time(row.seconds),
            str(row.times),
            _rate(row.times * row.work.flops, row.seconds, "flop/s"),
            _rate(row.times * row.work.bytes, row.seconds, "B/s"),
            row.name,
            _short(", ".join(dict.fromkeys(o.name for o in row.origins))),
            place(row.origins),
        )
        for row in rows[:top]
    ]
    _table(
        ("share", "time", "runs", "arithmetic", "traffic", "kernel", "computes", "where"), cells, 5
    )
    if len(rows) > top:
        rest = sum(row.seconds for row in rows[top:])
        click.echo(f"{_share(rest, profiled)} {_time(rest)} in {len(rows) - top} more (--top)")


def _lines(profiled: Any, top: int) -> None:
    from xlac.debug.profile import by_line

    entries = by_line(profiled.rows)
    click.echo()
    _table(
        ("share", "time", "lines of the spec"),
        [(_share(s, profiled), _time(s), where) for where, s in entries[:top]],
        2,
    )


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]], right: int) -> None:
    """A table with columns of minimal width; the last `right` of them right-aligned."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        cells = [
            text.rjust(w) if i < right else text.ljust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def _object(profiled: Any, model: str, choice: Any) -> dict[str, Any]:
    from xlac.debug.profile import by_line, place

    kernels = [
        {
            "kernel": r.name,
            "seconds": r.seconds,
            "runs": r.times,
            "flops": r.times * r.work.flops,
            "bytes": r.times * r.work.bytes,
            "computes": [o.name for o in r.origins],
            "where": place(r.origins),
        }
        for r in profiled.rows
    ]
    lines = [{"where": where, "seconds": seconds} for where, seconds in by_line(profiled.rows)]
    return {
        "model": model,
        "target": choice.target,
        "threads": choice.threads,
        "calls": profiled.calls,
        "seconds": profiled.seconds,
        "kernels": kernels,
        "lines": lines,
    }


def _csv(kernels: list[dict[str, Any]]) -> str:
    """The kernels of `_object`, a line each."""
    import csv
    import io

    text = io.StringIO()
    names = ("kernel", "seconds", "runs", "flops", "bytes", "computes", "where")
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {**one, "computes": " ".join(dict.fromkeys(one["computes"]))} for one in kernels
    )
    return text.getvalue()


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _share(seconds: float, profiled: Any) -> str:
    return f"{100 * seconds / max(profiled.seconds, 1e-12):.1f} %"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _rate(amount: int, seconds: float, unit: str) -> str:
    return f"{amount / seconds / 1e9:.1f} G{unit}" if amount and seconds > 0 else ""


def _short(text: str) -> str:
    return text if len(text) <= 48 else text[:47] + "…"
