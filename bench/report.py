"""Compares xlac with the best peer of the same run: `python bench/report.py RESULTS.json > table.md`.

One table for each thread count. A ratio is xlac's figure over the peer's, so below 1 is ahead. What failed, gave a
wrong result or was not run is listed, never left out in silence.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

OURS = "xlac"
FIGURES = {
    "seconds": "time",
    "compile_cpu_seconds": "CPU seconds to load, compile and call once",
    "peak_rss_mb": "peak memory of the process",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    workloads = json.loads(parser.parse_args().results.read_text())["workloads"]
    for threads in sorted({t for entry in workloads.values() for t in entry["results"]}, key=int):
        runs = {name: entry["results"][threads] for name, entry in workloads.items() if entry["results"].get(threads)}
        print(f"### {threads} thread(s)", "", *table(runs), "", *means(runs), "", *missing(runs), "", sep="\n")


def table(runs: Mapping[str, Any]) -> list[str]:
    """Markdown: the time of every contender on each workload, and ours over the best peer's."""
    peers = _peers(runs)
    head = ["workload", "unit", OURS, *peers, "best peer", "ratio", "by quietest burst"]
    lines = [_row(head), "|" + "---|" * len(head)]
    ratios: list[float] = []
    quietest: list[float] = []
    for workload, run in runs.items():
        times, bursts = _figures(run, "seconds"), _figures(run, "best_burst_seconds")
        best = min((p for p in peers if p in times), key=times.__getitem__, default=None)
        if OURS not in times or best is None:
            continue
        ratios.append(times[OURS] / times[best])
        quietest.append(bursts[OURS] / min(bursts[p] for p in peers if p in bursts))
        scale, unit = (1e3, "ms") if times[best] > 1e-3 else (1e6, "µs")
        cells = [f"{times[n] * scale:.3g}" if n in times else "–" for n in (OURS, *peers)]
        lines.append(_row([workload, unit, *cells, best, f"{ratios[-1]:.2f}", f"{quietest[-1]:.2f}"]))
    lines.append(_row(["geometric mean", *[""] * (len(head) - 3), f"{mean(ratios):.2f}", f"{mean(quietest):.2f}"]))
    behind = sum(r > 1.0 for r in ratios)
    return [*lines, "", f"{len(ratios)} workloads; behind the best peer on {behind}, by over 5 % on {sum(r > 1.05 for r in ratios)}."]


def means(runs: Mapping[str, Any]) -> list[str]:
    """Markdown: geometric means of our figures over each peer's, and over how many workloads."""
    peers = _peers(runs)
    lines = [_row(["geometric mean over", *peers]), "|" + "---|" * (len(peers) + 1)]
    for key, what in FIGURES.items():
        cells = []
        for peer in peers:
            found = [_figures(run, key) for run in runs.values()]
            ratios = [f[OURS] / f[peer] for f in found if OURS in f and peer in f]
            cells.append(f"{mean(ratios):.2f} ({len(ratios)})")
        lines.append(_row([what, *cells]))
    return lines


def missing(runs: Mapping[str, Any]) -> list[str]:
    """What failed, and what was not run."""
    lines = [
        f"- {workload}, {name}: {found['failure']}" for workload, run in runs.items() for name, found in run.items() if "failure" in found
    ]
    for name in (OURS, *_peers(runs)):
        absent = [workload for workload, run in runs.items() if name not in run]
        if absent:
            lines.append(f"- {name} was not run on {len(absent)} of {len(runs)}: {', '.join(absent)}")
    return ["Failures and gaps:", "", *(lines or ["- none"])]


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean; not a number over nothing."""
    logs = [math.log(r) for r in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def _peers(runs: Mapping[str, Any]) -> list[str]:
    return sorted({name for run in runs.values() for name in run} - {OURS})


def _figures(run: Mapping[str, Any], key: str) -> dict[str, float]:
    return {name: found[key] for name, found in run.items() if key in found and "failure" not in found}


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
