"""Batches of an epoch, made ahead by a thread."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from xlac.training.data.fitted import Tell
from xlac.training.data.order import shuffled
from xlac_sdk.dtypes import Array

Batch = dict[str, Array]
AHEAD = 2  # groups of batches that wait for their steps
# a group is handed over when it has so much, or took so long: small batches together cost less
GROUP_BYTES, GROUP_SECONDS = 1 << 20, 0.01


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """Which rows come when: in the order of an epoch, or (None) as they are stored; in batches of
    so many rows, a smaller last one left out or not.
    """

    batch: int
    epoch: int | None = None
    seed: int = 0
    drop_last: bool = False

    def steps(self, rows: int) -> int:
        """How many batches there are."""
        return rows // self.batch if self.drop_last else -(-rows // self.batch)

    def batches(self, rows: int, start: int) -> Iterator[NDArray[np.int64]]:
        """The rows of each batch from number `start` on."""
        for step in range(start, self.steps(rows)):
            first = step * self.batch
            at = np.arange(first, min(first + self.batch, rows))
            yield at if self.epoch is None else shuffled(at, rows, self.seed, self.epoch)


class TrainingData(Protocol):
    """What is trained on, or evaluated."""

    size: int | None
    """How many rows a batch has where the data decide that."""

    @property
    def digest(self) -> str:
        """What tells these data from others; known after `verify`."""

    def verify(self, tell: Tell) -> None:
        """Checks what can be checked before the first step. Raises SourceError."""

    def steps(self, order: EpochOrder) -> int | None:
        """How many batches an epoch has; None where nobody knows before its end."""

    def batches(self, order: EpochOrder, start: int) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on. Raises SourceError."""


@contextmanager
def prefetched(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """The same batches, the next ones made by a thread meanwhile; its errors are raised where the
    batch would have come. The thread ends with the block.
    """
    ready: queue.Queue[list[Batch] | BaseException | None] = queue.Queue(AHEAD)
    over = threading.Event()

    def put(item: list[Batch] | BaseException | None) -> bool:
        while not over.is_set():
            try:
                ready.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def make() -> None:
        try:
            for group in _grouped(batches):
                if not put(group):
                    return
            put(None)
        except BaseException as error:
            put(error)

    def taken() -> Iterator[Batch]:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield from item

    thread = threading.Thread(target=make, name="xlac batches", daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        over.set()
        thread.join()


def _grouped(batches: Iterator[Batch]) -> Iterator[list[Batch]]:
    """Batches in groups; those before an error come before it."""
    group: list[Batch] = []
    nbytes, began = 0, time.monotonic()
    try:
        for batch in batches:
            group.append(batch)
            nbytes += sum(array.nbytes for array in batch.values())
            if nbytes >= GROUP_BYTES or time.monotonic() - began >= GROUP_SECONDS:
                yield group
                group, nbytes, began = [], 0, time.monotonic()
    except Exception as error:
        yield group
        raise error from None
    yield group
