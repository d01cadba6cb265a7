"""Compares xlac with its peers in a recorded run: `python bench/report.py RESULTS.json > table.md`.

One table for each thread count, then percent of the machine's ceilings, compile times, memory,
accuracy and the bars of the issue. A ratio is xlac's figure over the peer's, so below 1 is ahead.
What failed, gave a wrong result or was not run is listed, never left out in silence.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import bars
from figures import NOT_PEERS, OURS, Recorded, figures, mean, peers

FIGURES = {
    "seconds": "time",
    "compile_cpu_seconds": "CPU seconds to load, compile and call once, imports aside",
    "process_cpu_seconds": "CPU seconds of the process until its first call, imports included",
    "peak_rss_mb": "peak memory of the process",
}


def main() -> None:
    """Prints the report of a recorded run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    run = Recorded(parser.parse_args().results)
    print("### The bars of the issue", "", *bars.table(run), "", sep="\n")
    for threads in run.threads:
        runs = run.runs(threads)
        print(
            f"### {threads} thread(s)",
            "",
            *table(runs),
            "",
            *means(runs),
            "",
            *missing(runs),
            "",
            sep="\n",
        )
    if run.ceilings is not None:
        print("### Percent of what the machine's ceilings allow", "", *shares(run), "", sep="\n")
    if run.own.get("starts"):
        print("### Processes of xlac, one thread", "", *starts(run), "", sep="\n")
    for key, what, form in (
        (
            "compile_cpu_seconds",
            "CPU seconds to load, compile and call once, imports aside",
            "{:.2f}",
        ),
        (
            "process_cpu_seconds",
            "CPU seconds of the process until its first call, imports included",
            "{:.2f}",
        ),
        ("peak_rss_mb", "Peak memory of the process, MB", "{:.0f}"),
        ("rel_error", "Error relative to the largest magnitude, against float64", "{:.1e}"),
    ):
        print(
            f"### {what}, {run.threads[0]} thread(s)",
            "",
            *column(run.runs(run.threads[0]), key, form),
            "",
            sep="\n",
        )


def table(runs: Mapping[str, Any]) -> list[str]:
    """Markdown: the time of every contender on each workload, and ours over the best peer's."""
    names = peers(runs)
    head = ["workload", "unit", OURS, *names, "best peer", "ratio", "by quietest burst"]
    lines = [_row(head), "|" + "---|" * len(head)]
    ratios: list[float] = []
    quietest: list[float] = []
    for workload, run in runs.items():
        times, bursts = figures(run, "seconds"), figures(run, "best_burst_seconds")
        best = min(
            (p for p in names if p in times and p not in NOT_PEERS),
            key=times.__getitem__,
            default=None,
        )
        if OURS not in times or best is None:
            continue
        ratios.append(times[OURS] / times[best])
        quietest.append(
            bursts[OURS] / min(bursts[p] for p in names if p in bursts and p not in NOT_PEERS)
        )
        scale, unit = (1e3, "ms") if times[best] > 1e-3 else (1e6, "µs")
        cells = [f"{times[n] * scale:.3g}" if n in times else "–" for n in (OURS, *names)]
        lines.append(
            _row([workload, unit, *cells, best, f"{ratios[-1]:.2f}", f"{quietest[-1]:.2f}"])
        )
    lines.append(
        _row(
            [
                "geometric mean",
                *[""] * (len(head) - 3),
                f"{mean(ratios):.2f}",
                f"{mean(quietest):.2f}",
            ]
        )
    )
    behind = sum(r > 1.0 for r in ratios)
    return [
        *lines,
        "",
        (
            f"{len(ratios)} workloads; behind the best peer on {behind}, by over 5 % on "
            f"{sum(r > 1.05 for r in ratios)}."
        ),
    ]


def means(runs: Mapping[str, Any]) -> list[str]:
    """Markdown: geometric means of our figures over each peer's, and over how many workloads."""
    names = peers(runs)
    lines = [_row(["geometric mean over", *names]), "|" + "---|" * (len(names) + 1)]
    for key, what in FIGURES.items():
        cells = []
        for peer in names:
            values = [figures(run, key) for run in runs.values()]
            ratios = [f[OURS] / f[peer] for f in values if OURS in f and peer in f]
            cells.append(f"{mean(ratios):.2f} ({len(ratios)})")
        lines.append(_row([what, *cells]))
    return lines


def missing(runs: Mapping[str, Any]) -> list[str]:
    """What failed, and what was not run."""
    lines = [
        f"- {workload}, {name}: {one['failure']}"
        for workload, run in runs.items()
        for name, one in run.items()
        if "failure" in one
    ]
    for name in (OURS, *peers(runs)):
        absent = [workload for workload, run in runs.items() if name not in run]
        if absent:
            lines.append(
                f"- {name} was not run on {len(absent)} of {len(runs)}: {', '.join(absent)}"
            )
    return ["Failures and gaps:", "", *(lines or ["- none"])]


def shares(run: Recorded) -> list[str]:
    """Markdown: the bound of each workload, and how much of it xlac and the best peer reach."""
    head = [
        "workload",
        *(
            f"{what}, {n} thread(s)"
            for n in run.threads
            for what in ("bound, µs", OURS, "best peer")
        ),
    ]
    lines = [_row(head), "|" + "---|" * len(head)]
    for workload in run.workloads:
        cells = [workload]
        for threads in run.threads:
            bound, times = run.bound(workload, threads), run.figure(workload, threads)
            assert bound is not None
            best = min((n for n in times if n not in NOT_PEERS), key=times.__getitem__, default="")
            reached = (run.of_bound(workload, threads, name) for name in (OURS, best))
            cells += [
                f"{bound['seconds'] * 1e6:.3g} ({bound['limit']})",
                *("–" if share is None else f"{share:.0%}" for share in reached),
            ]
        lines.append(_row(cells))
    return lines


def starts(run: Recorded) -> list[str]:
    """Markdown: whole processes, cold and warm."""
    lines = [
        _row(
            [
                "workload",
                "cold, CPU s",
                "warm until the call, CPU s",
                "warm until the call, s",
                "cold, MB",
                "warm, MB",
                "arena over live set",
            ]
        ),
        "|" + "---|" * 7,
    ]
    for workload, one in run.own["starts"].items():
        cold, warm = one["cold"], one["warm"]
        arena = f"{cold['arena_bytes'] / cold['live_bytes']:.3f}" if cold.get("live_bytes") else "–"
        lines.append(
            _row(
                [
                    workload,
                    f"{cold['cpu']:.2f}",
                    f"{warm['ready']:.3f}",
                    f"{warm.get('ready_wall', warm['wall']):.3f}",
                    f"{cold['peak_rss_mb']:.0f}",
                    f"{warm['peak_rss_mb']:.0f}",
                    arena,
                ]
            )
        )
    return lines


def column(runs: Mapping[str, Any], key: str, form: str) -> list[str]:
    """Markdown: one figure of every contender on each workload."""
    names = [OURS, *peers(runs)]
    lines = [_row(["workload", *names]), "|" + "---|" * (len(names) + 1)]
    for workload, run in runs.items():
        values = figures(run, key)
        lines.append(
            _row(
                [
                    workload,
                    *(form.format(values[n]) if values.get(n) is not None else "–" for n in names),
                ]
            )
        )
    return lines


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
