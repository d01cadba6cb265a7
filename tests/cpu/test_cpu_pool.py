"""Threads: every chunk once, from several callers, under load, in a fork, and gone at the end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpu_programs import kernel_of, loaded, machine, program_of

from xlac_cpu import BACKEND
from xlac_cpu.emit.threads import division as division_of
from xlac_cpu.emit.threads.pool import text as pool_text
from xlac_cpu.run import pool
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import add, apply, load, ramp
from xlac_sdk.kernel_ir.kernel import LoopKind, Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Program
from xlac_sdk.source import UnsupportedError

P = Primitive
X = np.arange(4096, dtype="f4")
KEPT: list[object] = []


def parallel(
    count: int = 4096, start: int = 0, step: int = 16, grain: int = 1, flops: int = 10**7
) -> Program:
    """Counts how often each element is visited: y += x."""

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", start, count, step, kind=LoopKind.PARALLEL, grain=grain) as i:
            at = ramp(i, 1, 1)
            b.store(buffers["y"], at, apply(P.ADD, load(buffers["y"], at), load(buffers["x"], at)))
            if step > 1:
                more = ramp(add(i, 1), 1, step - 1)
                b.store(
                    buffers["y"],
                    more,
                    apply(P.ADD, load(buffers["y"], more), load(buffers["x"], more)),
                )

    room = start + -(-(count - start) // step) * step
    return program_of(
        kernel_of(body, {"x": (DType.F32, room)}, {}, {"y": (DType.F32, room)}, work=Work(flops))
    )


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "count,start,step,grain",
    [(4096, 0, 16, 1), (1000, 3, 7, 5), (5, 0, 1, 1), (64, 0, 1, 64), (0, 0, 1, 1)],
)
def test_every_iteration_runs_once(
    threads: int, count: int, start: int, step: int, grain: int
) -> None:
    program = parallel(count, start, step, grain)
    room = program.inputs[0].size
    x, y = X[:room].copy(), np.ones(room, "f4")
    executable = loaded(program, machine(threads))
    for _ in range(20):
        result = executable.fast(x, y)
        assert np.array_equal(result[start:], 1 + x[start:]) and (result[:start] == 1).all()


def test_only_work_that_pays_is_split() -> None:
    def chunks(program: float = 1e6, **facts: int) -> int:
        launch = next(s for s in parallel(**facts).steps if hasattr(s, "kernel"))
        loop = launch.kernel.parallel
        assert loop is not None
        return division_of.split(launch, loop, 4, program).chunks

    assert chunks(flops=200_000) == 16 and chunks(flops=1000) == 1
    assert chunks(grain=10**6) == 1 and chunks(grain=64) == 4
    assert chunks(flops=10**9) == 256  # at most 64 a thread
    assert chunks(program=20_000.0, flops=200_000) == 1  # not worth waking a thread for
    assert chunks(count=30 * 16, grain=5) == 4  # the grain allows six, which are not equal
    assert chunks(count=80 * 16, grain=5) == 16
    assert "fork" not in BACKEND.emit(parallel(flops=1000), machine(2))["program.ll"]


def test_several_callers_share_the_pool() -> None:
    executable = loaded(parallel(), machine(3))
    wrong: list[int] = []

    def call(seed: int) -> None:
        y = np.full(4096, seed, "f4")
        for _ in range(300):
            if not np.array_equal(executable.fast(X, y), X + seed):
                wrong.append(seed)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_the_caller_begins_at_the_first_chunk_and_others_at_the_last() -> None:
    """So that each thread finds in its caches what it had in the last call, or in the kernel
    before.
    """
    block = pool.of(2)
    fork = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )(ctypes.c_void_p.from_address(block).value or 0)
    took: dict[int, int] = {}
    ends = {0: threading.Event(), 63: threading.Event()}

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    def chunk(_frame: int | None, number: int) -> None:
        took[number] = threading.get_ident()
        if number in ends:  # whoever has one end waits until somebody has the other
            ends[number].set()
            ends[63 - number].wait(1000)

    fork(block, ctypes.cast(chunk, ctypes.c_void_p), None, 64)
    assert sorted(took) == list(range(64))
    assert took[0] == threading.get_ident() != took[63]


def test_oversubscription_does_not_collapse() -> None:
    """Sixteen threads on few cores: two hundred calls end, which waiting for turns would not."""
    y, wanted = np.ones(4096, "f4"), np.ones(4096, "f4")
    loaded(parallel(), machine(1)).fast(X, wanted)
    fast = loaded(parallel(), machine(16)).fast
    for _ in range(200):
        fast(X, y)
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="the system does not tell of its threads"
)
def test_idle_threads_sleep() -> None:
    fast = loaded(parallel(), machine(4)).fast
    fast(X, X)
    others = [
        task
        for task in Path("/proc/self/task").iterdir()
        if int(task.name) != threading.get_native_id()
    ]
    assert len(others) >= 3
    awake = others
    while awake:  # the test's time limit says when they should all have gone to sleep
        time.sleep(0.05)
        awake = [
            task
            for task in awake
            if task.exists() and (task / "stat").read_text().rpartition(")")[2].split()[0] != "S"
        ]


def ended(child: int) -> int:
    """The status of a child, which is not left behind where it hangs."""
    try:
        return os.waitpid(child, 0)[1]
    except BaseException:  # the test's time limit
        os.kill(child, signal.SIGKILL)
        raise


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_computes_too() -> None:
    executable = loaded(parallel(), machine(3))
    y = np.ones(4096, "f4")
    stop = threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            executable.fast(X, y)

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                fine = all(np.array_equal(executable.fast(X, y), X + 1) for _ in range(20))
                tasks = Path("/proc/self/task")  # its own threads, made when they were first needed
                os._exit(
                    0 if fine and (not tasks.exists() or len(list(tasks.iterdir())) == 3) else 1
                )
            assert ended(child) == 0
    finally:
        stop.set()
        busy.join()
    assert np.array_equal(executable.fast(X, y), X + 1)


def test_the_process_ends_with_threads_waiting() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_cpu_pool import *\n"
        "fast = loaded(parallel(), machine(4)).fast\n"
        "for _ in range(100): fast(X, X)\n"
        "print('end', flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=True,
    )
    assert done.stdout == "end\n" and done.stderr == ""


def test_too_many_threads_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="XL5110"):
        loaded(parallel(), machine(300))


def test_without_futexes_threads_wait_on_a_condition() -> None:
    """The pool of other systems, which this one can run too."""
    import ctypes

    from xlac_cpu.llvm import link, objects
    from xlac_cpu.llvm.host import host
    from xlac_cpu.run import pool as pools

    code = link.load([objects.object_code(pool_text(host(), futex=False))], pools.EXPORTS)
    block = ctypes.create_string_buffer(pools.SIZE + 64)
    # asleep between any two jobs
    pools.prepare(block, 4, (code[1][pools.FORK], code[1][pools.FORK_WATCHED]), spin=1)
    fork = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )(code[1]["fork"])
    seen = np.zeros(64, np.int64)
    chunk = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(
        lambda frame, number: seen.__setitem__(number, seen[number] + 1)
    )
    for round in range(1, 200):
        fork(pools.place(block), ctypes.cast(chunk, ctypes.c_void_p), None, 64)
        assert (seen == round).all()
        if round % 20 == 0:
            time.sleep(0.002)
    KEPT.append((code, block, chunk))  # its threads never end


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="the system does not tell where threads may run"
)
def test_a_thread_that_wakes_beside_its_caller_goes_elsewhere_and_stays_free() -> None:
    """What Linux is asked for: every processor but that one, then those of before."""
    from xlac_cpu.llvm import link, objects
    from xlac_cpu.llvm.host import host

    allowed, asked = os.sched_getaffinity(0), []

    @ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_int32, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint8)
    )
    def record(_thread: int, size: int, mask: Any) -> int:
        asked.append({cpu for cpu in range(8 * size) if mask[cpu // 8] >> cpu % 8 & 1})
        return 0

    address = ctypes.cast(record, ctypes.c_void_p).value
    text = pool_text(host()).replace(
        "call i32 @sched_setaffinity", f"call i32 inttoptr (i64 {address} to ptr)"
    )
    code = link.load([objects.object_code(text)], ("leave",))
    leave = ctypes.CFUNCTYPE(None, ctypes.c_int32)(code[1]["leave"])
    for cpu in allowed:
        leave(cpu)
        assert asked == [allowed - {cpu}, allowed]
        asked.clear()
    leave(1 << 20)  # more than a mask of the kernel's holds
    assert not asked
    KEPT.append((code, record))


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="the system does not tell where threads may run"
)
def test_threads_bound_to_one_processor_compute_too() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import os; one = {min(os.sched_getaffinity(0))}; os.sched_setaffinity(0, one)\n"
        "from test_cpu_pool import *\n"
        "fast = loaded(parallel(), machine(2)).fast\n"
        "for _ in range(20): assert np.array_equal(fast(X, X), 2 * X); time.sleep(0.002)\n"
        "assert all(os.sched_getaffinity(int(task.name)) == one for task in "
        "Path('/proc/self/task').iterdir())\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], timeout=1800, check=True
    )
