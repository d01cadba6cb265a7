"""The function that Python calls: what it takes, what it declines, and that nothing leaks."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
import tempfile
import threading
import weakref
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cpu_programs import BACKEND, kernel_of, loaded, machine

from xlac.runtime.compiled import Compiled
from xlac_cpu.run import fastcall
from xlac_cpu.run.executable import QUICK
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import apply, load, ramp
from xlac_sdk.kernel_ir.kernel import Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot

P = Primitive
pytestmark = pytest.mark.skipif(
    not fastcall.supported(), reason="this interpreter is called through ctypes"
)


def two_outputs(work: int = 0, arena: int = 256) -> Program:
    """sum and product of a 4x16 and another, through temporaries."""
    shape = (4, 16)
    a, b = (Slot(n, n, DType.F32, shape, Role.INPUT) for n in ("a", "b"))
    s, p = (Slot(n, n, DType.F32, shape, Role.OUTPUT) for n in ("s", "p"))
    t = Slot("t", "t", DType.F32, shape, Role.TEMPORARY)

    def body(builder, buffers):  # type: ignore[no-untyped-def]
        with builder.loop("i", 0, 64, 16) as i:
            at = ramp(i, 1, 16)
            x, y = load(buffers["a"], at), load(buffers["b"], at)
            builder.store(buffers["t"], at, apply(P.ADD, x, y))
            builder.store(buffers["p"], at, apply(P.MUL, x, y))

    def copy(builder, buffers):  # type: ignore[no-untyped-def]
        with builder.loop("i", 0, 64, 16) as i:
            builder.store(buffers["s"], ramp(i, 1, 16), load(buffers["t"], ramp(i, 1, 16)))

    of = dict.fromkeys("abtps", (DType.F32, 64))
    first = kernel_of(body, {n: of[n] for n in "ab"}, {n: of[n] for n in "tp"}, work=Work(work))
    second = kernel_of(copy, {"t": of["t"]}, {"s": of["s"]})
    steps = (
        Launch(first, tuple(map(Argument, (a, b, t, p)))),
        Launch(second, (Argument(t), Argument(s))),
    )
    return Program("p", (a, b), (s, p), (a, b, s, p, t), steps, {}, arena_bytes=arena)


A = np.arange(64, dtype="f4").reshape(4, 16)
B = A[::-1].copy() + 1


def right(result: object) -> bool:
    return (
        isinstance(result, tuple)
        and np.array_equal(result[0], A + B)
        and np.array_equal(result[1], A * B)
    )


def test_it_gives_new_arrays() -> None:
    fast = loaded(two_outputs(), machine()).fast
    first, second = fast(A, B), fast(A, B)
    assert right(first) and right(second)
    for array in first:
        assert (
            array.flags.owndata
            and array.flags.writeable
            and array.dtype == np.float32
            and array.shape == (4, 16)
        )
    assert not np.shares_memory(first[0], second[0])


def test_names_are_taken_in_order() -> None:
    fast = loaded(two_outputs(), machine()).fast
    assert right(fast(a=A, b=B)) and right(fast(A, b=B))
    assert right(fast(**{"a": A, "xb"[1:]: B}))
    for given in ({"b": B, "a": A}, {"a": A}, {"a": A, "c": B}, {"a": A, "b": B, "c": B}):
        assert fast(**given) is NotImplemented
    assert fast(A, a=B) is NotImplemented


def test_it_declines_what_needs_conversion() -> None:
    fast = loaded(two_outputs(), machine()).fast
    wide = np.zeros((4, 32), "f4")
    shifted = np.frombuffer(b"\0" * 257, np.uint8)[1:].view("f4").reshape(4, 16)
    big_endian, subclass = A.astype(">f4"), A.view(np.recarray)
    declined = [A.astype("f8"), A.T, wide[:, ::2], A.reshape(16, 4), A.reshape(64), A.tolist()]
    declined += [shifted, big_endian, subclass, np.float32(1), A[:3], np.array(1.0, "f4")]
    for value in (*declined, 1.0, None):
        assert fast(value, B) is NotImplemented and fast(A, value) is NotImplemented
    assert (
        fast() is NotImplemented and fast(A) is NotImplemented and fast(A, B, A) is NotImplemented
    )
    fixed = A.copy()
    fixed.flags.writeable = False
    assert right(fast(fixed, B))


def test_nothing_leaks() -> None:
    fast = loaded(two_outputs(), machine()).fast
    dtype, none = np.dtype("f4"), NotImplemented
    fast(A, B), fast(A)
    before = [sys.getrefcount(o) for o in (A, B, dtype, none)]
    for _ in range(2000):
        fast(A, B)
        fast(A)
        fast(A, b=B)
    after = [sys.getrefcount(o) for o in (A, B, dtype, none)]
    assert all(abs(x - y) < 10 for x, y in zip(before, after, strict=True)), (before, after)


def test_the_function_outlives_its_executable_and_then_goes() -> None:
    executable = loaded(two_outputs(), machine())
    gone = weakref.ref(executable)
    fast = executable.fast
    del executable
    gc.collect()
    assert right(fast(A, B))
    del fast
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("work", [0, 10**9])
def test_several_threads_at_once(work: int) -> None:
    """With and without the interpreter's lock given up; every call has an arena of its own."""
    executable = loaded(two_outputs(work), machine())
    wrong: list[int] = []

    def call(seed: int) -> None:
        mine = np.random.default_rng(seed).normal(size=(4, 16)).astype("f4")
        for _ in range(500):
            s, p = executable.fast(mine, B)
            if not (np.array_equal(s, mine + B) and np.array_equal(p, mine * B)):
                wrong.append(seed)
            out = {"s": np.empty_like(mine), "p": np.empty_like(mine)}
            executable.run({"a": mine, "b": B}, out)
            if not np.array_equal(out["s"], mine + B):
                wrong.append(seed)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_memory_that_cannot_be_had_is_an_error() -> None:
    fast = loaded(two_outputs(arena=1 << 60), machine()).fast
    with pytest.raises(MemoryError):
        fast(A, B)


def test_scalars_and_zero_sizes() -> None:
    x, y = (Slot(n, n, DType.I64, (), r) for n, r in (("x", Role.INPUT), ("y", Role.OUTPUT)))

    def body(b, buffers):  # type: ignore[no-untyped-def]
        from xlac_sdk.kernel_ir.build import index

        b.store(buffers["y"], index(0), load(buffers["x"], index(0)))

    kernel = kernel_of(body, {"x": (DType.I64, 1)}, {"y": (DType.I64, 1)})
    program = Program("p", (x,), (y,), (x, y), (Launch(kernel, (Argument(x), Argument(y))),), {})
    result = loaded(program, machine()).fast(np.array(7))
    assert isinstance(result, np.ndarray) and result.shape == () and result == 7


def test_it_is_made_once_calls_show_that_it_pays() -> None:
    """Whoever calls once does not wait for it, and from then on calls go by it: here those of four
    threads.
    """
    program, target = two_outputs(), machine()
    sources = BACKEND.emit(program, target)
    with tempfile.TemporaryDirectory() as folder:
        executable = BACKEND.load(BACKEND.build(sources, Path(folder)), program, target)
    model = Compiled(program, target, executable)
    for _ in range(QUICK - 2):
        assert right(tuple(model(A, B).values()))
    assert executable.fast is None
    wrong: list[int] = []

    def call(seed: int) -> None:
        mine = A + seed
        for _ in range(50):
            found = model(mine, b=B)
            if not (np.array_equal(found["s"], mine + B) and np.array_equal(found["p"], mine * B)):
                wrong.append(seed)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(call, range(4)))
    assert not wrong and executable.fast is not None and model._fast is executable.fast
    assert right(tuple(model(A, B).values()))


def given_outputs() -> dict[str, np.ndarray]:
    return {"s": np.zeros((4, 16), "f4"), "p": np.zeros((4, 16), "f4")}


def test_outputs_are_given() -> None:
    into = loaded(two_outputs(), machine()).into
    out = given_outputs()
    assert into({"b": B, "a": A}, out) is True
    assert right((out["s"], out["p"]))


def test_given_outputs_that_are_not_exact_are_declined_untouched() -> None:
    into = loaded(two_outputs(), machine()).into
    block = np.zeros((12, 16), "f4")
    fixed = np.zeros((4, 16), "f4")
    fixed.flags.writeable = False
    shared = block[:4], block[3:7]
    wrong = [
        {"s": block[:4].astype("f8")},
        {"s": np.zeros((4, 32), "f4")[:, ::2]},
        {"s": np.zeros((16, 4), "f4")},
        {"s": fixed},
        {"s": [0.0] * 64},
        {"s": A},
        {"s": B},
        dict(zip("sp", shared, strict=True)),
        dict(zip("sp", shared[::-1], strict=True)),
        {"s": shared[0], "p": shared[0]},
        {"q": block[:4]},
    ]
    for changed in wrong:
        out = {**given_outputs(), **changed}
        before = {name: np.array(array) for name, array in out.items()}
        assert into({"a": A, "b": B}, out) is False
        for name, array in out.items():
            assert np.array_equal(array, before[name])
    made_up = defaultdict(lambda: np.zeros((4, 16), "f4"), s=block[:4], q=block[4:8])
    assert into({"a": A, "b": B}, made_up) is False and set(made_up) == {"s", "q"}
    assert into({"a": A}, given_outputs()) is False
    assert into({"a": A, "b": B, "c": B}, given_outputs()) is False
    neighbours = {"s": block[:4], "p": block[4:8]}
    assert into({"a": A, "b": B}, neighbours) and right((block[:4], block[4:8]))
    assert not block[8:].any()


def test_given_outputs_do_not_leak() -> None:
    into = loaded(two_outputs(), machine()).into
    out = given_outputs()
    kept = (A, B, out["s"], out["p"], np.dtype("f4"), NotImplemented)
    into({"a": A, "b": B}, out)
    before = [sys.getrefcount(o) for o in kept]
    for _ in range(2000):
        into({"a": A, "b": B}, out)
        into({"a": A, "b": B}, {**out, "s": A})
    after = [sys.getrefcount(o) for o in kept]
    assert all(abs(x - y) < 10 for x, y in zip(before, after, strict=True)), (before, after)


def test_what_others_say_of_functions_of_python_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of `ctypes.pythonapi` are one for all threads: calls read what others change."""
    names = ("PyCapsule_New", "PyCapsule_GetPointer", "PyCFunction_NewEx")
    shared = [getattr(ctypes.pythonapi, name) for name in names]
    others = (ctypes.c_int,)
    for function in shared:
        monkeypatch.setattr(function, "argtypes", others)
    assert right(loaded(two_outputs(), machine()).fast(A, B))
    assert [function.argtypes for function in shared] == [others] * 3


def test_every_block_of_the_text_is_explained() -> None:
    text = Path(fastcall.__file__).parents[1] / "templates" / "fastcall.ll"
    lines = text.read_text(encoding="utf-8").splitlines()
    blocks = [n for n, line in enumerate(lines) if re.fullmatch(r"[\w.]+:", line)]
    assert len(blocks) > 50
    # a block has a comment before it, the first one of a function before the function
    bare = [lines[n] for n in blocks if not lines[n - 1].startswith((";", "define"))]
    assert not bare, bare
