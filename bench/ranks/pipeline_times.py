"""Processor time of a step of the transformer in two stages, whose ranks are threads, beside one
process; and the step that these times of phases make: `python pipeline_times.py [MICRO_BATCHES]`.
Other work on the machine matters less than to `pipeline_steps.py`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline_steps import spec_of
from trained_models import batch

import xlac
from xlac.pipelining.plan import Phase
from xlac.pipelining.schedule import PhaseTimes, ordered
from xlac.training.ranks.pipeline import PipelinePrograms
from xlac.training.trainer import Trainer
from xlac_sdk.host.ranks.threads import ThreadRank, together

STEPS = 12
SPENT: dict[Phase, list[float]] = defaultdict(list)


class TimedPrograms(PipelinePrograms):
    """Notes the processor time of each phase."""

    def _compute(
        self, at: int, phase: Phase, given: Mapping[str, Any], into: Mapping[str, Any]
    ) -> None:
        began = time.thread_time()
        super()._compute(at, phase, given, into)
        SPENT[phase].append(time.thread_time() - began)


def step_time(trainer: Trainer) -> float:
    """The least processor time of a step, in seconds of this thread."""
    given: Any = batch("transformer")
    times = []
    for _ in range(STEPS):
        began = time.thread_time()
        trainer.step(**given)
        times.append(time.thread_time() - began)
    return min(times)


def main(count: int) -> None:
    """Prints milliseconds of one process, of each rank, of its phases alone, and of the step."""
    with tempfile.TemporaryDirectory() as folder:
        alone, staged = Path(folder) / "alone.yaml", Path(folder) / "staged.yaml"
        alone.write_text(spec_of("data", count), "utf-8")
        staged.write_text(spec_of("1f1b", count), "utf-8")
        one = step_time(xlac.trainer(alone, threads=1))

        def rank(_: ThreadRank) -> tuple[float, TimedPrograms]:
            trainer = xlac.trainer(staged, mesh="stage=2", threads=1)
            programs = trainer._programs
            assert isinstance(programs, PipelinePrograms)
            programs.__class__ = TimedPrograms
            return step_time(trainer), programs  # type: ignore[return-value]

        ranks = together(2, rank)
    plans = [next(iter(programs._orders)) for _, programs in ranks]
    first = plans[0]
    times = {}
    for at, plan in enumerate(first):  # each rank has phases of its own of the same plan
        seconds = [min(SPENT[plans[phase.rank][at].phases[phase.number]]) for phase in plan.phases]
        none = dict.fromkeys(((one.source, one.rank) for one in plan.messages), 0.0)
        times[plan] = PhaseTimes(tuple(seconds), none)
    order = ordered(first, times=times)
    busy = " ".join(f"{order.busy(n) * 1e3:.1f}" for n in range(2))
    whole = " ".join(f"{seconds * 1e3:.1f}" for seconds, _ in ranks)
    print(f"one process {one * 1e3:.1f}; ranks {whole}; their phases {busy}; ", end="")
    print(f"step {order.seconds * 1e3:.1f}, of which ranks wait for {order.bubble:.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
