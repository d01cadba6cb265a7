"""Performs what a call does: graphs where actions are in a row, and between them what the host
decides.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from xlac_cuda.device.errors import DeviceError
from xlac_cuda.device.gpu import Gpu
from xlac_cuda.plan import (
    Action,
    Arrays,
    DeviceAddress,
    DeviceLoop,
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
from xlac_sdk.programs.program import Call, Launch

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


Part = LaunchGraph | KernelRun | Move | Whole | HostLoop | HostSwitch | Mark


def blocking() -> bool:
    """Whether the user asked for kernels one by one, each waited for: an error then names the
    kernel. Read at loading.
    """
    return os.environ.get(BLOCKING, "") not in ("", "0")


def recorded(
    actions: Iterable[Action],
    able: Callable[[Action], bool],
    graph: Callable[[Sequence[Action]], LaunchGraph] | None,
) -> tuple[Part, ...]:
    """Actions in a row that graphs are able to do as graphs, or one by one where `graph` is None;
    the host decides the others.
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
    """Every graph, wherever it stands."""
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
    """Does what parts say, on arrays, in a stream, unless the call is to stop. The context is
    current.
    """

    gpu: Gpu
    functions: Functions
    library: Library
    stream: int
    blocking: bool = False

    def perform(self, parts: Iterable[Part], arrays: Arrays) -> None:
        """Does the parts in order, in the program's stream; raises what ends the call."""
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
                    self.perform(condition, arrays)
                    while self._read(flag.at(arrays), np.dtype(np.bool_)):
                        self.perform(body, arrays)
                        self.perform(condition, arrays)
                case HostSwitch(index=index, branches=branches):
                    number = self._read(index.at(arrays), np.dtype(np.int32))
                    self.perform(branches[number if 0 <= number < len(branches) else -1], arrays)
                case Mark():
                    self._mark(part, arrays)

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
        """Waits for what was launched, where all is run one by one; its error says what it was."""
        if not self.blocking:
            return
        try:
            self.gpu.sync(self.stream)
        except DeviceError as error:
            (found,) = error.diagnostics
            raise of_kernel(replace(found, hint=ENDED), error.code, step) from None

    def _read(
        self, address: int, dtype: np.dtype[np.bool_] | np.dtype[np.int32] | np.dtype[np.int64]
    ) -> int:
        """One number from the device, waited for."""
        value = np.zeros(1, dtype)
        self.gpu.download(value.ctypes.data, address, value.nbytes, self.stream)
        self.gpu.sync(self.stream)
        return int(value[0])

    def _mark(self, mark: Mark, arrays: Arrays) -> None:
        """The host's clock, in nanoseconds, when everything before is done."""
        self.gpu.sync(self.stream)
        now, start = time.perf_counter_ns(), mark.log.at(arrays)
        count = self._read(start, np.dtype(np.int64)) if mark.code else 0
        if 3 + 2 * count > mark.room:
            return
        for place, value in ((1 + 2 * count, mark.code), (2 + 2 * count, now), (0, count + 1)):
            number = np.asarray([value], np.int64)
            self.gpu.upload(start + 8 * place, number.ctypes.data, number.nbytes, self.stream)
