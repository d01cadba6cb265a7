"""A call that would not end: ctrl-C, a time-out and another thread end it, and the next call is as
good as the first.
"""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endless import SPECS, Pressed, inputs, model

import xlac
from xlac_cpu.run import fastcall
from xlac_sdk.host import stopping

TARGETS = [("cpu", 1), ("cpu", 2), ("c", 1), ("reference", 1)]
pytestmark = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="signals are those of POSIX"
)
Case = tuple[Any, list[Any]]


@pytest.fixture(
    params=[(t, n, s) for t, n in TARGETS for s in SPECS], ids=lambda p: f"{p[0]}-{p[1]}-{p[2]}"
)
def endless(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    target, threads, name = request.param
    if name == "sizes" and target == "reference":
        pytest.skip("what it computes a line at a time is no other than with known sizes")
    options = {"sizes": "symbolic"} if name == "sizes" else {}
    made = model(name, tmp_path, target=target, threads=threads, **options)
    return made, inputs(made.program)


@pytest.mark.sampled(6)
def test_it_ends(endless: Case) -> None:
    """By ctrl-C, by a time-out, and by another thread; one after the other, so that each finds the
    program usable.
    """
    program, given = endless
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), Pressed():
            program(*given)
    with pytest.raises(xlac.DeadlineError, match="XL4041"), xlac.timeout(0.05):
        program(*given)
    with pytest.raises(TimeoutError), xlac.timeout(0.05):
        program.run(dict(zip(program.inputs, given, strict=True)), out_of(program, given))
    with xlac.timeout(None) as limit:
        timer = threading.Timer(0.05, limit.stop)
        timer.start()
        with pytest.raises(xlac.LimitError, match="XL4042"):
            program(*given)
        timer.join()
        with pytest.raises(xlac.LimitError, match="XL4042"):
            program(*given)
    assert not stopping.limited()


def out_of(program: Any, given: list[Any]) -> dict[str, Any]:
    sizes = {symbol.name: symbol.max for symbol in program.program.sizes}
    return {s.name: np.empty(s.extents(sizes), s.dtype.numpy) for s in program.program.outputs}


@pytest.fixture(params=[1, 2])
def spinning(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], Any]:
    """Ends for n = 0, at once, and for nothing else; through the quick way in."""
    made = model("repeat", tmp_path, threads=request.param)
    made.executable.quicken()
    assert made.executable.fast is not None or not fastcall.supported()
    made._fast = made.executable.fast
    return lambda n: made(np.ones(8, "f4"), np.int32(n) * np.ones((), "i4"))


@pytest.mark.sampled(4)
def test_calls_after_it_are_right_and_nothing_leaks(spinning: Callable[[int], Any]) -> None:
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt), Pressed(0.02):
            spinning(5)
        assert np.array_equal(spinning(0), np.ones(8, "f4"))
    gc.collect()
    blocks = [_blocks(spinning) for _ in range(3)]
    assert max(blocks[1:]) <= blocks[0] + 64, blocks


def _blocks(spinning: Callable[[int], Any]) -> int:
    import sys

    for _ in range(4):
        with pytest.raises(TimeoutError), xlac.timeout(0.0):
            spinning(5)
        with pytest.raises(KeyboardInterrupt), Pressed(0.005):
            spinning(5)
    gc.collect()
    return sys.getallocatedblocks()


def test_a_handler_that_returns_does_not_end_it(spinning: Callable[[int], Any]) -> None:
    """It runs during the call, not after it: here it is what ends the call, the third time."""
    came: list[int] = []

    def handler(number: int, frame: object) -> None:
        came.append(number)
        if len(came) == 3:
            signal.setitimer(signal.ITIMER_REAL, 0)  # or a fourth may come
            raise ZeroDivisionError

    before = signal.signal(signal.SIGUSR1, handler)
    timer = signal.setitimer(signal.ITIMER_REAL, 0)
    alarm = signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGUSR1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        with pytest.raises(ZeroDivisionError):
            spinning(5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGUSR1, before)
    assert len(came) == 3


def test_a_call_in_another_thread_is_no_business_of_signals(spinning: Callable[[int], Any]) -> None:
    """The main thread is interrupted; the call goes on until its own limit ends it."""
    limits: list[xlac.timeout] = []
    begun = threading.Event()

    def call() -> str:
        with xlac.timeout(None) as limit:
            limits.append(limit)
            begun.set()
            try:
                spinning(5)
            except xlac.LimitError as error:
                return error.diagnostics[0].code
        return ""

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(call)
        begun.wait()
        with pytest.raises(KeyboardInterrupt), Pressed(0.02):
            found.result()
        assert not found.done()
        limits[0].stop()
        assert found.result() == "XL4042"


@pytest.mark.sampled(4)
def test_many_threads_stop_each_their_own(spinning: Callable[[int], Any]) -> None:
    """Half of the calls end by themselves, half by their time-outs, all at once."""

    def call(number: int) -> bool:
        if number % 2:
            return bool(np.array_equal(spinning(0), np.ones(8, "f4")))
        try:
            with xlac.timeout(0.01):
                spinning(5)
        except TimeoutError:
            return True
        return False

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(60)))
    assert not stopping.limited()


def test_limits_nest(spinning: Callable[[int], Any]) -> None:
    with xlac.timeout(0.02):
        with pytest.raises(TimeoutError), xlac.timeout(1000):
            spinning(5)
        with pytest.raises(TimeoutError):
            spinning(0)
    with xlac.timeout(None) as outer, xlac.timeout(1000):
        outer.stop()
        with pytest.raises(xlac.LimitError, match="XL4042"):
            spinning(0)
    with xlac.timeout(None) as one, pytest.raises(RuntimeError), one:
        pass
    with pytest.raises(ValueError, match="-1"):
        xlac.timeout(-1)
    assert np.array_equal(spinning(0), np.ones(8, "f4"))


def test_code_that_is_short_never_looks(tmp_path: Path) -> None:
    """Nothing of this is in a program that takes less than 20 ms."""
    from xlac.driver import lower
    from xlac.spec.load import load
    from xlac_cpu import BACKEND
    from xlac_sdk.target import Request

    specs = Path(__file__).parents[2] / "specs"
    for name in ("digits", "mlp_small", "elementwise_chain", "softmax", "tagger", "lstm_stream"):
        lowered = lower(load(specs / f"{name}.yaml"), BACKEND.target(Request(threads=2)))
        assert "stopped" not in "".join(BACKEND.emit(lowered.program, lowered.target).values())
