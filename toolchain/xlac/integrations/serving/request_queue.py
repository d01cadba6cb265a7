"""A queue of requests before one model: calls come one after the other, and requests that wait
meanwhile are joined.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from xlac.integrations.serving.batch_axis import Arrays, Call, divided, joined
from xlac_sdk.dtypes import Array

Results = dict[str, Array]


@dataclass(frozen=True, slots=True, eq=False)
class WaitingRequest:
    """The inputs of a request, the future of its results, and when it came (seconds)."""

    inputs: Arrays
    future: asyncio.Future[Results]
    came: float = 0.0

    @property
    def rows(self) -> int:
        """The extent of the first axis of its inputs."""
        return len(next(iter(self.inputs.values())))

    @property
    def kind(self) -> tuple[tuple[int, ...], ...]:
        """The extents of all other axes; requests are joined where these are equal."""
        return tuple(array.shape[1:] for array in self.inputs.values())


def next_call(waiting: Sequence[WaitingRequest], limit: int) -> list[WaitingRequest]:
    """The requests of the next call: the oldest, and others of its kind in their order while there
    are at most `limit` rows. With limit 0 the oldest alone.
    """
    chosen = [waiting[0]]
    if not limit:
        return chosen
    kind, rows = waiting[0].kind, waiting[0].rows
    for request in waiting[1:]:
        if request.kind == kind and rows + request.rows <= limit:
            chosen.append(request)
            rows += request.rows
    return chosen


class RequestQueue:
    """Answers requests by calls in a thread of its own, of at most `limit` rows (0: each request is
    a call). The oldest request waits at most `wait` seconds for others. `called` is told the number
    of requests in each call.

    A call that fails is repeated for each of its requests, so that one request's mistake is not
    another's. Used from one event loop.
    """

    def __init__(
        self, call: Call, limit: int, wait: float, called: Callable[[int], None] = lambda _: None
    ) -> None:
        self._call, self._limit, self._wait, self._called = call, limit, wait, called
        self._waiting: list[WaitingRequest] = []
        self._thread = ThreadPoolExecutor(1, "xlac")
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def results(self, inputs: Arrays) -> Results:
        """The results of a request. Raises what its call raises."""
        loop = asyncio.get_running_loop()
        request = WaitingRequest(inputs, loop.create_future(), loop.time())
        self._waiting.append(request)
        self._news.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())
        return await request.future

    def close(self) -> None:
        """Ends the thread once its call has ended."""
        self._thread.shutdown(wait=False)

    async def _work(self) -> None:
        """Calls until nobody waits."""
        while chosen := await self._gathered():
            taken = set(map(id, chosen))
            self._waiting = [one for one in self._waiting if id(one) not in taken]
            await self._answer(chosen)

    async def _gathered(self) -> list[WaitingRequest]:
        """The requests of the next call, after waiting for more where there is room; none where
        nobody waits. Those whose clients have gone are dropped.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._waiting = [one for one in self._waiting if not one.future.done()]
            if not self._waiting:
                return []
            chosen = next_call(self._waiting, self._limit)
            left = self._waiting[0].came + self._wait - loop.time()
            if left <= 0 or not self._limit or sum(one.rows for one in chosen) >= self._limit:
                return chosen
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)

    async def _answer(self, requests: Sequence[WaitingRequest]) -> None:
        """Sets the futures of some requests by one call."""
        loop = asyncio.get_running_loop()
        self._called(len(requests))
        try:
            given = [request.inputs for request in requests]
            inputs = given[0] if len(given) == 1 else joined(given)
            results = await loop.run_in_executor(self._thread, partial(self._call, inputs))
            each: list[Any] = [results]
            if len(given) > 1:
                each = divided(results, [request.rows for request in requests])
        except Exception as error:
            if len(requests) > 1:
                for request in requests:
                    await self._answer([request])
            elif not requests[0].future.done():
                requests[0].future.set_exception(error)
            return
        for request, part in zip(requests, each, strict=True):
            if not request.future.done():
                request.future.set_result(part)
