"""The batches of an epoch, prefetched by a thread."""

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

from xlac.training.data.fitted import Progress
from xlac.training.data.order import shuffled
from xlac_sdk.dtypes import Array

Batch = dict[str, Array]
AHEAD = 2  # groups of batches in the queue
# batches are queued in groups of this size or age, since queueing small ones singly is slow
GROUP_BYTES, GROUP_SECONDS = 1 << 20, 0.01


@dataclass(frozen=True, slots=True)
class EpochOrder:
    """The order of rows: shuffled for an `epoch`, or (None) as stored, in batches of `batch` rows;
    `drop_last` leaves a smaller last batch out.
    """

    batch: int
    epoch: int | None = None
    seed: int = 0
    drop_last: bool = False

    def steps(self, rows: int) -> int:
        """The number of batches that `rows` rows make."""
        return rows // self.batch if self.drop_last else -(-rows // self.batch)

    def batches(self, rows: int, start: int) -> Iterator[NDArray[np.int64]]:
        """The row numbers of each batch, from batch `start` on, as i64 arrays."""
        for step in range(start, self.steps(rows)):
            first = step * self.batch
            at = np.arange(first, min(first + self.batch, rows))
            yield at if self.epoch is None else shuffled(at, rows, self.seed, self.epoch)


class TrainingData(Protocol):
    """Data to train on or to evaluate."""

    size: int | None
    """The number of rows of a batch where the data decide it; 0 where it varies."""

    @property
    def digest(self) -> str:
        """A text that identifies the data; known after `verify`."""

    def verify(self, progress: Progress) -> None:
        """Checks what can be checked before the first step. Raises SourceError."""

    def steps(self, order: EpochOrder) -> int | None:
        """The number of batches of an epoch; None where it is unknown."""

    def batches(self, order: EpochOrder, start: int) -> Iterator[Batch]:
        """The batches of an epoch from batch `start` on. Raises SourceError."""


@contextmanager
def prefetched(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:
    """The same batches, made ahead by a thread. Its exceptions are raised in place of the batch
    that failed. The thread ends with the block.
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
    """Batches in groups; batches before an exception are still yielded."""
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
