"""Makes the steps of a call of a model in stages, by as many threads as its order has."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from threading import Event, Lock

from xlac.placement.call_order import CallOrder, CopyStart, StagePost, StageStart, Step, ValueDone
from xlac.placement.stage_models import StageValues
from xlac_sdk.backend import CallInFlight, Executable
from xlac_sdk.dtypes import Array
from xlac_sdk.host.calls.in_flight import begin, call

FIRST = -1
"""The number, before those of stages, of errors that are of none."""


class StageThreads:
    """The threads of a model besides its callers', which wait for work in the order of calls. They
    are made when they are first used, and end with this object.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._process = 0
        self._threads: list[ThreadPoolExecutor] = []

    def submit(self, work: Sequence[Callable[[], None]], begun: list[Future[None]]) -> None:
        """Starts a function in each thread, in the caller's context: its time-out holds there.
        What has begun is in `begun`, also after an error.
        """
        if self._process != os.getpid():  # a process that was forked has no threads
            self._process = os.getpid()
            self._threads = [ThreadPoolExecutor(1, "xlac-stage") for _ in range(self._count)]
        for thread, one in zip(self._threads, work, strict=True):
            begun.append(thread.submit(copy_context().run, one))


class StagePerformer:
    """Performs calls of a model's stages in an order, one call at a time."""

    def __init__(self, order: CallOrder, values: StageValues, stages: Sequence[Executable]) -> None:
        self.order, self.values, self.stages = order, values, tuple(stages)
        writes = [writes for _, writes in values.stages]
        self.maker = {v: stage for stage, one in enumerate(writes) for v in one.values()}
        self.results = [values.results(stage) for stage in range(len(writes))]
        self.posts = [step.stage for step in order.steps() if isinstance(step, StagePost)]
        self.threads = StageThreads(len(order.threads) - 1)

    def run(self, arrays: Mapping[int, Array]) -> None:
        """A call, with its arrays by the numbers of their values. Raises the error of the first
        stage that has one, when all that was started has ended.
        """
        _OrderedCall(self, arrays).run()


class _OrderedCall:
    """A call: its arrays, and the calls of its stages. An error of a stage ends the steps of all
    threads.
    """

    def __init__(self, of: StagePerformer, arrays: Mapping[int, Array]) -> None:
        self._of, self._arrays = of, arrays
        self._calls: dict[int, CallInFlight] = {}
        self._locks = {number: Lock() for number in of.order.overlapping}
        self._posts = {stage: Event() for stage in of.posts}
        self._failed: list[tuple[int, BaseException]] = []

    def run(self) -> None:
        first, *others = self._of.order.threads
        running: list[Future[None]] = []
        try:
            for number in sorted(self._locks):
                self._calls[number] = begin(self._of.stages[number])
            if others:
                self._of.threads.submit([self._thread(steps) for steps in others], running)
            self._perform(first)
        except BaseException as error:
            self._fail(FIRST, error)
        wait(running)
        self._end()
        if self._failed:
            raise min(self._failed, key=lambda failure: failure[0])[1]

    def _thread(self, steps: Sequence[Step]) -> Callable[[], None]:
        return lambda: self._perform(steps)

    def _perform(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if self._failed:
                return
            try:
                self._step(step)
            except BaseException as error:
                is_error = isinstance(error, Exception)  # and no interrupt
                self._fail(self._stage_of(step) if is_error else FIRST, error)
                return

    def _fail(self, stage: int, error: BaseException) -> None:
        """Notes an error, and lets all threads go on to their ends."""
        self._failed.append((stage, error))
        for post in self._posts.values():
            post.set()

    def _stage_of(self, step: Step) -> int:
        return self._of.maker[step.value] if isinstance(step, ValueDone) else step.stage

    def _step(self, step: Step) -> None:
        match step:
            case CopyStart(value=value, stage=stage):
                with self._locks[stage]:
                    for name, number in self._of.values.stages[stage][0].items():
                        if number == value:
                            self._calls[stage].send(name, self._arrays[number])
            case StageStart(stage=stage):
                self._start(stage)
            case ValueDone(value=value):
                self._wait(value)
            case StagePost(stage=stage):
                self._posts[stage].set()

    def _start(self, stage: int) -> None:
        results = {name: self._arrays[n] for name, n in self._of.results[stage].items()}
        if stage in self._locks:
            with self._locks[stage]:
                self._calls[stage].start(results)
            return
        reads, _ = self._of.values.stages[stage]
        given = {name: self._arrays[number] for name, number in reads.items()}
        call(self._of.stages[stage], given, results)

    def _wait(self, value: int) -> None:
        stage = self._of.maker[value]
        if stage in self._posts:
            self._posts[stage].wait()
        if stage in self._locks and not self._failed:
            with self._locks[stage]:
                for name, number in self._of.results[stage].items():
                    if number == value:
                        self._calls[stage].wait(name)

    def _end(self) -> None:
        """Waits for what is left of the stages in flight; arrays are then free for other calls."""
        for stage, one in self._calls.items():
            try:
                try:
                    for name in () if self._failed else self._of.results[stage]:
                        one.wait(name)
                finally:
                    one.end()
            except BaseException as error:
                self._failed.append((stage, error))
