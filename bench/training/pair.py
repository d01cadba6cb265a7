"""Two processes that train the same row and take turns, for halved.py and unfused.py."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from step_rows import ROWS


def step_bursts(row: str, clock: Callable[[], float], **options: Any) -> None:
    """A contender: the losses of three steps, then for each line of so many seconds the least time
    of a step by `clock`. `options` are those of the trainer.
    """
    from xlac.training.trainer import Trainer

    asked = ROWS[row]
    file = Path(__file__).parent / "models" / f"{asked.network}.yaml"
    trainer = Trainer(file, params=asked.params, target="cpu", **options)
    given = asked.arrays()
    print(json.dumps([trainer.step(**given)["loss"] for _ in range(3)]), flush=True)
    for line in sys.stdin:
        stop, best = time.perf_counter() + float(line), float("inf")
        while best == float("inf") or time.perf_counter() < stop:
            start = clock()
            trainer.step(**given)
            best = min(best, clock() - start)
        print(best, flush=True)


def turns(
    commands: Sequence[Sequence[str]], env: Mapping[str, str], bursts: int, seconds: float
) -> tuple[list[list[float]], list[list[float]]]:
    """The first losses of each contender, and for each turn the figures of their bursts."""
    running = [
        subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for command in commands
    ]
    losses = [json.loads(process.stdout.readline()) for process in running if process.stdout]
    figures = []
    for _ in range(bursts):
        turn = []
        for process in running:
            assert process.stdin and process.stdout
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
            turn.append(float(process.stdout.readline()))
        figures.append(turn)
    for process in running:
        assert process.stdin
        process.stdin.close()
        process.wait()
    return losses, figures
