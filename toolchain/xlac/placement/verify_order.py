"""Checks the order of a call: every value is complete before it is read, nothing in flight is
touched, and no thread waits for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xlac.placement.call_order import CallOrder, CopyStart, StagePost, StageStart, Step, ValueDone
from xlac.placement.stage_models import StageValues
from xlac_sdk.source import VerifyError

Clock = list[int]  # how many steps of each thread have surely been made
At = tuple[int, int]  # a step: its thread, and how many are made with it


def verify_order(values: StageValues, order: CallOrder) -> None:
    """Raises VerifyError for an order in which, whatever the threads' speed, a value could be read
    before it is done, a device could compute before its copies were started, an array could be
    written twice, or a thread would wait for ever.
    """
    _Walk(values, order).check()


@dataclass
class _Walk:
    """The steps in an order that threads could make them in. What a step needs must come before it
    in every such order: it is in the clock of the step's thread.
    """

    values: StageValues
    order: CallOrder
    clocks: list[Clock] = field(init=False)
    maker: dict[int, int] = field(init=False, default_factory=dict)  # the stage that writes a value
    started: dict[int, At] = field(init=False, default_factory=dict)
    copied: dict[tuple[int, int], At] = field(init=False, default_factory=dict)
    done: dict[int, list[At]] = field(init=False, default_factory=dict)
    posted: dict[int, Clock] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.clocks = [[0] * len(self.order.threads) for _ in self.order.threads]
        given = {*self.values.inputs.values(), *self.values.sizes}
        given |= {state.before for state in self.values.held}
        for number, (_, writes) in enumerate(self.values.stages):
            for value in writes.values():
                if value in self.maker or value in given:
                    raise VerifyError(f"stage {number} writes value {value}, which is written")
                self.maker[value] = number

    def check(self) -> None:
        threads = self.order.threads
        at = [0] * len(threads)
        moved = True
        while moved:
            moved = False
            for number, steps in enumerate(threads):
                while at[number] < len(steps) and self._can(steps[at[number]], number):
                    self._step(steps[at[number]], number)
                    at[number] += 1
                    moved = True
        for number, steps in enumerate(threads):
            if at[number] < len(steps):
                raise VerifyError(f"thread {number} waits for ever in {steps[at[number]]}")
        missing = sorted({*range(len(self.values.stages))} - self.started.keys())
        if missing:
            raise VerifyError(f"stages {missing} never start")

    def _can(self, step: Step, thread: int) -> bool:
        """Whether a step does not wait for one of another thread."""
        if not isinstance(step, ValueDone) or step.value not in self.maker:
            return True
        stage = self.maker[step.value]
        return stage in self.posted or self._is_past(self.started.get(stage), thread)

    def _is_past(self, at: At | None, thread: int) -> bool:
        return at is not None and self.clocks[thread][at[0]] >= at[1]

    def _step(self, step: Step, thread: int) -> None:
        clock = self.clocks[thread]
        clock[thread] += 1
        here = thread, clock[thread]
        match step:
            case CopyStart(value=value, stage=stage):
                self._copy(value, stage, thread)
                self.copied[value, stage] = here
            case StageStart(stage=stage):
                self._start(stage, thread)
                self.started[stage] = here
            case ValueDone(value=value):
                if value not in self.maker:
                    raise VerifyError(f"no stage writes value {value}, which is waited for")
                for one, made in enumerate(self.posted.get(self.maker[value], ())):
                    clock[one] = max(clock[one], made)
                self.done.setdefault(value, []).append(here)
            case StagePost(stage=stage):
                if not self._is_past(self.started.get(stage), thread):
                    raise VerifyError(f"stage {stage} is posted before it starts")
                self.posted[stage] = list(clock)

    def _copy(self, value: int, stage: int, thread: int) -> None:
        who = f"the copy of value {value} to stage {stage}"
        if stage not in self.order.overlapping or value not in self._reads(stage):
            raise VerifyError(f"{who} is for nothing")
        if (value, stage) in self.copied or stage in self.started:
            raise VerifyError(f"{who} may overwrite what the stage reads")
        self._needs(value, thread, who)

    def _start(self, stage: int, thread: int) -> None:
        if stage in self.started:
            raise VerifyError(f"stage {stage} starts twice, and writes what is being read")
        for value in self._reads(stage):
            if stage not in self.order.overlapping:
                self._needs(value, thread, f"stage {stage}")
            elif not self._is_past(self.copied.get((value, stage)), thread):
                raise VerifyError(f"stage {stage} starts before value {value} is copied to it")

    def _reads(self, stage: int) -> Sequence[int]:
        return tuple(self.values.stages[stage][0].values())

    def _needs(self, value: int, thread: int, who: str) -> None:
        """Raises VerifyError for a value that may be in flight."""
        maker = self.maker.get(value)
        if maker is None:
            return
        if maker in self.order.overlapping:
            made = any(self._is_past(at, thread) for at in self.done.get(value, ()))
        else:
            made = self._is_past(self.started.get(maker), thread)
        if not made:
            raise VerifyError(f"{who} reads value {value} of stage {maker} before it is done")
