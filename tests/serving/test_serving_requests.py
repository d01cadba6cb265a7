"""A queue of requests before a model: which are one call, and what each is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from serving import SCORES, spec

from xlac.api import compile
from xlac.integrations.serving.batch_axis import Arrays, divided, joined
from xlac.integrations.serving.request_queue import RequestQueue, WaitingRequest, next_call
from xlac_sdk.dtypes import Array


def test_joining_and_dividing() -> None:
    parts = [{"x": np.full((rows, 2), rows), "z": np.full(rows, -rows)} for rows in (1, 3, 2)]
    whole = joined(parts)
    assert whole["x"].shape == (6, 2)
    for got, want in zip(divided(whole, [1, 3, 2]), parts, strict=True):
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])


def waiting(rows: int, width: int = 4) -> WaitingRequest:
    """A request of so many rows."""
    loop = asyncio.new_event_loop()
    return WaitingRequest({"x": np.zeros((rows, width))}, loop.create_future())


def test_who_is_in_the_next_call() -> None:
    """The oldest, and those of its kind that fit, in their order."""
    some = [waiting(3), waiting(2, 5), waiting(6), waiting(4), waiting(1), waiting(1)]
    assert next_call(some, 8) == [some[0], some[3], some[4]]
    assert next_call(some[1:], 8) == [some[1]]
    assert next_call(some, 0) == [some[0]]
    assert next_call([waiting(9), waiting(1)], 8)[0].rows == 9


def asked(
    call: Callable[[Arrays], dict[str, Array]], requests: list[Arrays], limit: int, wait: float = 0
) -> tuple[list[Any], list[int]]:
    """Results or errors of requests that are made at once, and how many each call answered."""
    calls: list[int] = []

    async def all_at_once() -> list[Any]:
        queue = RequestQueue(call, limit, wait, calls.append)
        try:
            tasks = (queue.results(request) for request in requests)
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            queue.close()

    return asyncio.run(all_at_once()), calls


def test_requests_at_once_are_one_call_and_equal_to_single_ones(tmp_path: Path) -> None:
    """Two kinds of rows and more of them than a call takes."""
    text = SCORES.replace("n: {", "s: {min: 1, max: 4}, n: {").replace("n, 16", "n, s, 16")
    compiled = compile(spec(tmp_path, text), sizes="symbolic")
    generator = np.random.default_rng(0)
    shapes = [(1, 2), (2, 2), (1, 3), (40, 2), (30, 2), (3, 3), (64, 1)]
    xs = [generator.standard_normal((*shape, 16)).astype(np.float32) for shape in shapes]
    got, calls = asked(lambda a: compiled(**a), [{"x": x} for x in xs], 64)
    assert calls == [3, 2, 1, 1]
    for x, result in zip(xs, got, strict=True):
        want = compiled(x=x)
        np.testing.assert_allclose(result["p"], want["p"], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(result["best"], want["best"])


def test_one_request_that_fails_is_alone() -> None:
    """Others of its call are answered."""

    def call(arrays: Arrays) -> dict[str, Array]:
        if (arrays["x"] < 0).any():
            raise ValueError("negative")
        return {"y": arrays["x"] * 2}

    got, calls = asked(call, [{"x": np.array([n])} for n in (1, -1, 3)], 8)
    assert calls == [3, 1, 1, 1]
    assert got[0]["y"] == [2] and str(got[1]) == "negative" and got[2]["y"] == [6]


def test_a_full_call_waits_for_nobody() -> None:
    """A wait of an hour, and eight requests of one row: the last one begins the call."""
    some: list[Arrays] = [{"x": np.array([n])} for n in range(8)]
    got, calls = asked(lambda a: {"y": a["x"]}, some, 8, wait=3600)
    assert calls == [8] and [int(one["y"][0]) for one in got] == list(range(8))


def test_a_request_that_nobody_waits_for_is_not_computed() -> None:
    async def left() -> list[int]:
        calls: list[int] = []
        queue = RequestQueue(lambda a: {"y": a["x"]}, 8, 3600, calls.append)
        gone = asyncio.create_task(queue.results({"x": np.zeros(3)}))
        await asyncio.sleep(0)
        gone.cancel()
        got = await asyncio.gather(*(queue.results({"x": np.ones(4)}) for _ in range(2)))
        assert all(len(one["y"]) == 4 for one in got)
        queue.close()
        return calls

    assert asyncio.run(left()) == [2]
