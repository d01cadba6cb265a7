"""Runs a call: graphs for sequences of actions, and host-decided loops and branches
between them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.plan import (
    Action,
    Arrays,
    DeviceAddress,
    DeviceLoop,
    Exchange,
    ExchangeDone,
    ExchangeStart,
    KernelRun,
    Mark,
    Move,
    Switch,
    Whole,
)
from xlac_cuda.run.faults import of_kernel
from xlac_cuda.run.graph import LaunchGraph
from xlac_cuda.run.nodes import Functions, Library
from xlac_sdk.host import stopping
from xlac_sdk.programs.exchange_checks import MESH
from xlac_sdk.programs.program import Call, Launch, Program

if TYPE_CHECKING:  # most programs have no other ranks
    from xlac_cuda.ranks.exchanges import RankExchanges

BLOCKING = "XLAC_CUDA_BLOCKING"
ENDED = "this process cannot use the GPU any more"


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop whose flag the host reads."""

    condition: tuple[Part, ...]
    flag: DeviceAddress
    body: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class HostSwitch:
    """A branch whose number the host reads."""

    index: DeviceAddress
    branches: tuple[tuple[Part, ...], ...]


Part = LaunchGraph | KernelRun | Move | Whole | HostLoop | HostSwitch | Mark | Exchange


def blocking() -> bool:
    """Whether the user asked for kernels to be launched one by one, each waited for, so that errors
    name the kernel. Read at loading.
    """
    return os.environ.get(BLOCKING, "") not in ("", "0")


def exchanges_of(program: Program, gpu: Gpu) -> RankExchanges | None:
    """The collectives of a program; None for one that a single rank runs."""
    if MESH not in program.facts:
        return None
    from xlac_cuda.ranks.exchanges import RankExchanges

    return RankExchanges.of(program, gpu)


def recorded(
    actions: Iterable[Action],
    able: Callable[[Action], bool],
    graph: Callable[[Sequence[Action]], LaunchGraph] | None,
) -> tuple[Part, ...]:
    """Sequences of actions that graphs support as graphs, or one by one if `graph` is None; the
    host decides the others.
    """
    parts: list[Part] = []
    for together, group in groupby(actions, able):
        if together and graph is not None:
            parts.append(graph(tuple(group)))
            continue
        for action in group:
            match action:
                case DeviceLoop(condition=condition, flag=flag, body=body):
                    parts.append(
                        HostLoop(
                            recorded(condition, able, graph), flag, recorded(body, able, graph)
                        )
                    )
                case Switch(index=index, branches=branches):
                    parts.append(
                        HostSwitch(
                            index, tuple(recorded(branch, able, graph) for branch in branches)
                        )
                    )
                case _:
                    parts.append(action)
    return tuple(parts)


def graphs(parts: Iterable[Part]) -> Iterable[LaunchGraph]:
    """Every graph, including those in loops and branches."""
    for part in parts:
        match part:
            case LaunchGraph():
                yield part
            case HostLoop(condition=condition, body=body):
                yield from graphs((*condition, *body))
            case HostSwitch(branches=branches):
                for branch in branches:
                    yield from graphs(branch)


@dataclass(frozen=True, slots=True)
class Performer:
    """Runs parts on arrays, in a stream, unless the call is to stop. The context must
    be current.
    """

    gpu: Gpu
    functions: Functions
    library: Library
    stream: int
    blocking: bool = False
    exchanges: RankExchanges | None = None

    def perform(self, parts: Iterable[Part], arrays: Arrays) -> None:
        """Runs the parts in order, in the program's stream; raises the error that ends the call.
        Collectives among ranks have arrived when it returns.
        """
        self._perform(parts, arrays)
        if self.exchanges is not None:
            self.exchanges.wait()

    def _perform(self, parts: Iterable[Part], arrays: Arrays) -> None:
        for part in parts:
            stopping.check()
            match part:
                case LaunchGraph():
                    part.launch(arrays, self.stream)
                case KernelRun():
                    self._run(part, arrays)
                case Move(target=target, source=source, nbytes=nbytes):
                    self.gpu.move(target.at(arrays), source.at(arrays), nbytes, self.stream)
                case Whole():
                    self.library(part, arrays)(self.stream)
                    self._waited(part.step)
                case HostLoop(condition=condition, flag=flag, body=body):
                    self._perform(condition, arrays)
                    while self._read(flag.at(arrays), np.dtype(np.bool_)):
                        self._perform(body, arrays)
                        self._perform(condition, arrays)
                case HostSwitch(index=index, branches=branches):
                    number = self._read(index.at(arrays), np.dtype(np.int32))
                    self._perform(branches[number if 0 <= number < len(branches) else -1], arrays)
                case Mark():
                    self._mark(part, arrays)
                case ExchangeStart() | ExchangeDone():
                    self._exchange(part, arrays)

    def _exchange(self, part: Exchange, arrays: Arrays) -> None:
        exchanges = self.exchanges
        assert exchanges is not None, "a program with collectives has them prepared"
        if isinstance(part, ExchangeStart):
            exchanges.start(part, arrays, self.stream)
        else:
            exchanges.done(part, self.stream)

    def _run(self, run: KernelRun, arrays: Arrays) -> None:
        entry = run.entry
        self.gpu.launch(
            self.functions[run.entry],
            run.blocks,
            entry.threads,
            entry.dynamic,
            run.packed(arrays),
            self.stream,
        )
        self._waited(run.step)

    def _waited(self, step: Launch | Call) -> None:
        """Waits for a launch if all run one by one; its error names the step."""
        if not self.blocking:
            return
        try:
            self.gpu.sync(self.stream)
        except DeviceError as error:
            (fault,) = error.diagnostics
            raise of_kernel(replace(fault, hint=ENDED), error.code, step) from None

    def _read(
        self, address: int, dtype: np.dtype[np.bool_] | np.dtype[np.int32] | np.dtype[np.int64]
    ) -> int:
        """Reads one number from the device, after pending work."""
        if self.exchanges is not None:
            self.exchanges.wait()
        value = np.zeros(1, dtype)
        self.gpu.download(value.ctypes.data, address, value.nbytes, self.stream)
        self.gpu.sync(self.stream)
        return int(value[0])

    def _mark(self, mark: Mark, arrays: Arrays) -> None:
        """Logs the host's clock, in nanoseconds, after all earlier work."""
        self.gpu.sync(self.stream)
        now, start = time.perf_counter_ns(), mark.log.at(arrays)
        count = self._read(start, np.dtype(np.int64)) if mark.code else 0
        if 3 + 2 * count > mark.room:
            return
        for place, value in ((1 + 2 * count, mark.code), (2 + 2 * count, now), (0, count + 1)):
            number = np.asarray([value], np.int64)
            self.gpu.upload(start + 8 * place, number.ctypes.data, number.nbytes, self.stream)
