"""Whole training steps beside PyTorch's (eager, inductor) and JAX's, in interleaved bursts.

    python bench/training/steps.py [ROW…] [--threads 1] [--bursts 9] [--seconds 0.5] [--out FILE]

Each contender is a process of its own, all alive at once, and they take turns: a burst is steps for
so many seconds, its figure the quickest; ratios are medians over turns of a burst over its
neighbour's, so that a busy machine weighs on all alike. Where it is so busy that no step has the
processor to itself, `--processor` compares processor time, of one thread. All begin with the same
weights, and the losses of five steps are compared. Memory is the most that steps hold less what
importing the contender holds; compile time ends with the first step, caches off.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from step_rows import ROWS, StepRow

CONTENDERS = ("xlac", "eager", "inductor", "jax")
COLUMNS = (
    *("row", "ms", "x eager", "x inductor", "x jax", "MB", "eager's", "inductor's", "jax's"),
    *("compile s", "inductor's", "jax's"),
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


class Session:
    """A contender that is running."""

    def __init__(self, name: str, row: str, threads: int, folder: str) -> None:
        self.name = name
        env = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "XLAC_CACHE": "off",
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": str(threads),
        }
        command = [
            sys.executable,
            str(Path(__file__).with_name("contender.py")),
            name,
            row,
            str(threads),
            folder,
        ]
        if threads == 1:
            one = str(max(os.sched_getaffinity(0)))
            command = ["taskset", "-c", one, *command]
            env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.first = self._reply()

    def burst(self, seconds: float, steps: int) -> dict[str, float]:
        """Seconds of the quickest step of a burst, and processor seconds."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"seconds": seconds, "steps": steps}) + "\n")
        self.process.stdin.flush()
        reply: dict[str, float] = self._reply()
        return reply

    def _reply(self) -> Any:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """Ends the contender's process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def written(row: StepRow, folder: Path) -> None:
    """The weights that all begin with, and the inputs."""
    from xlac.training.trainer import Trainer

    file = Path(__file__).parent / "models" / f"{row.network}.yaml"
    weights = Trainer(file, params=row.params, target="reference").weights()
    np.savez(folder / "weights.npz", **weights)  # type: ignore[arg-type]
    np.savez(folder / "inputs.npz", **row.arrays())  # type: ignore[arg-type]


def measured(name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """All figures of a row."""
    with tempfile.TemporaryDirectory() as folder:
        written(ROWS[name], Path(folder))
        sessions = [Session(one, name, asked.threads, folder) for one in asked.contenders]
        losses = {one.name: one.first["losses"] for one in sessions}
        wanted = np.array(next(iter(losses.values())))
        scale = np.maximum(np.abs(wanted), 1e-6)  # a batch of one is soon learned to a loss of 0
        gaps = {n: float((np.abs(f - wanted) / scale).max()) for n, f in losses.items()}
        if not max(gaps.values()) <= 1e-2:
            print(f"{name}: losses differ: {losses}", file=sys.stderr)
        turns = [{s.name: s.burst(asked.seconds, 1) for s in sessions} for _ in range(asked.bursts)]
        for session in sessions:
            session.close()
    first, *others = (session.name for session in sessions)
    what = "processor_seconds" if asked.processor else "seconds"
    return {
        "name": name,
        "kind": ROWS[name].kind,
        "gaps": gaps,
        "by": what,
        "best": {n: min(t[n][what] for t in turns) for n in turns[0]},
        "ratios": {n: median(t[first][what] / t[n][what] for t in turns) for n in others},
        "first": {s.name: s.first for s in sessions},
    }


def table_row(row: dict[str, Any]) -> str:
    """A row of the table."""
    ratios, first = row["ratios"], row["first"]

    def cell(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    def of(name: str, what: str, unit: float) -> float | None:
        return first[name][what] / unit if name in first else None

    cells = [row["name"], f"{row['best'][next(iter(row['best']))] * 1e3:.2f}"]
    cells += [cell(ratios.get(name), ".2f") for name in CONTENDERS[1:]]
    cells += [cell(of(name, "step_bytes", 1e6), ".0f") for name in CONTENDERS]
    cells += [cell(of(n, "compile_seconds", 1.0), ".1f") for n in ("xlac", "inductor", "jax")]
    return "| " + " | ".join(cells) + " |"


def mean_of_best(records: list[dict[str, Any]], kind: str) -> float:
    """Geometric mean of our time over the best other's, of rows of a kind."""
    ratios = [max(r["ratios"].values()) for r in records if r["kind"] == kind and r["ratios"]]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")


def main() -> None:
    """Measures the steps of the rows that are asked for and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bursts", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a burst, at least a step")
    parser.add_argument("--contenders", type=lambda text: text.split(","), default=CONTENDERS)
    parser.add_argument("--processor", action="store_true", help="compare processor time")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    print(HEAD, flush=True)
    records = []
    for name in asked.rows:
        records.append(measured(name, asked))
        print(table_row(records[-1]), flush=True)
    for kind in ("compute", "overhead"):
        print(
            f"geometric mean over the best of the others, {kind}: {mean_of_best(records, kind):.2f}"
        )
    if asked.out:
        asked.out.write_text(json.dumps({"threads": asked.threads, "rows": records}, indent=1))


if __name__ == "__main__":
    main()
