"""The interpreter's memory is checked, and its threads go in step."""

from __future__ import annotations

import numpy as np
import pytest

from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import KernelFault, run_kernel
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Apply,
    Barrier,
    Buffer,
    Const,
    Exchange,
    Expr,
    Kernel,
    Load,
    LoopKind,
    Ramp,
    Space,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.programs.program import Argument, Copy, Program, Role, Slot

P, F32, I32, I64 = Primitive, DType.F32, DType.I32, DType.I64
X = Buffer("x", F32, 8)
Y = Buffer("y", F32, 8, access=Access.WRITE)


@pytest.mark.parametrize("at", [0, 3, 5, 6])
@pytest.mark.parametrize(
    "on", [[True], [False], [True, False, True, False], [False, False, False, True]]
)
def test_masks_of_loads_and_stores(at: int, on: list[bool]) -> None:
    """Lanes that are masked away are read as 0, are not written, and may lie anywhere."""
    mask = np.broadcast_to(np.array(on), 4)
    flags = Buffer("on", DType.BOOL, 4)
    b = Builder()
    chosen = b.let("chosen", Load(flags, Const(0, I32), 4))
    value = b.let("value", Load(X, Const(at, I32), 4, chosen))
    b.store(Y, 0, value)
    b.store(Y, at, build.splat(Const(9.0, F32), 4), mask=chosen)
    y, x = np.full(8, -1.0, "f4"), np.arange(1, 9, dtype="f4")
    arrays = {"on": mask.copy(), "x": x, "y": y}
    kernel = Kernel("k", (flags, X, Y), b.body())
    if any(mask[lane] and at + lane >= 8 for lane in range(4)):
        with pytest.raises(KernelFault, match=r"'x' of 8 elements is accessed at index [89]"):
            run_kernel(kernel, arrays)
        return
    run_kernel(kernel, arrays)
    expected = np.full(8, -1.0, "f4")
    expected[:4] = [x[at + lane] if mask[lane] else 0 for lane in range(4)]
    for lane in range(4):
        if mask[lane]:
            expected[at + lane] = 9
    np.testing.assert_array_equal(y, expected)


def test_an_access_out_of_bounds_names_kernel_buffer_and_index() -> None:
    b = Builder()
    with b.loop("i", 0, 8) as i:
        b.store(Y, i, build.load(X, build.add(i, 1)))
    with pytest.raises(
        KernelFault, match=r"kernel shifted: buffer 'x' of 8 elements is accessed at index 8"
    ):
        run_kernel(
            Kernel("shifted", (X, Y), b.body()), {"x": np.ones(8, "f4"), "y": np.empty(8, "f4")}
        )


@pytest.mark.parametrize(
    ("at", "mask", "faulty"),
    [(4, None, False), (6, None, True), (6, False, False), (6, True, True)],
)
def test_what_is_said_of_alignment_must_be_so(at: int, mask: bool | None, faulty: bool) -> None:
    """A GPU faults at an access of 16 bytes whose address is no multiple of 16, unless it is masked
    away.
    """
    b = Builder()
    on = None if mask is None else build.splat(Const(mask, DType.BOOL), 4)
    b.store(Y, 0, build.load(X, build.ramp(at, 1, 4), mask=on, align=16), align=16)
    kernel, arrays = (
        Kernel("wide", (X, Y), b.body()),
        {"x": np.ones(16, "f4"), "y": np.empty(8, "f4")},
    )
    if not faulty:
        run_kernel(kernel, arrays)
        return
    with pytest.raises(
        KernelFault,
        match="kernel wide: buffer 'x' is accessed at index 6, which is not a multiple of 4",
    ):
        run_kernel(kernel, arrays)


def test_negative_indices_do_not_wrap_around() -> None:
    b = Builder()
    b.store(Y, -1, Const(0.0, F32))
    with pytest.raises(KernelFault, match="'y' of 8 elements is accessed at index -1"):
        run_kernel(Kernel("k", (Y,), b.body()), {"y": np.empty(8, "f4")})


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_local_buffer_read_before_it_is_written(lanes: int) -> None:
    b = Builder()
    held = b.local("held", F32, 8)
    b.store(held, 0, Const(1.0, F32))
    b.store(Y, build.ramp(0, 1, lanes), build.load(held, build.ramp(1, 1, lanes)))
    with pytest.raises(KernelFault, match=r"'held' is read at .* before it was written"):
        run_kernel(Kernel("k", (Y,), b.body()), {"y": np.empty(8, "f4")})


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("how", ["load", "masked", "combined"])
def test_a_kernel_that_says_it_reads_what_it_wrote_does(lanes: int, how: str) -> None:
    """Whatever memory held before: each element has to be written by this launch."""
    held = Buffer("held", F32, 8, access=Access.REREAD)
    b = Builder()
    b.store(held, 0, Const(1.0, F32))
    at = build.ramp(1, 1, lanes)
    mask = Const(True, DType.BOOL, lanes) if how == "masked" else None
    if how == "combined":
        b.store(held, at, Const(1.0, F32, lanes), atomic=Primitive.ADD)
    else:
        b.store(Y, build.ramp(0, 1, lanes), Load(held, at, lanes, mask))
    kernel = Kernel("k", (Y, held), b.body())
    verify(kernel)
    with pytest.raises(KernelFault, match=r"'held' is read at .* before it was written"):
        run_kernel(kernel, {"y": np.empty(8, "f4"), "held": np.ones(8, "f4")})


def test_a_name_keeps_its_value_when_the_buffer_changes() -> None:
    y = Buffer("y", F32, 8, access=Access.UPDATE)
    b = Builder()
    before = b.let("before", build.load(y, build.ramp(0, 1, 4)))
    b.store(y, build.ramp(0, 1, 4), Const(0.0, F32, 4))
    b.store(y, build.ramp(4, 1, 4), before)
    data = np.arange(8, dtype="f4")
    run_kernel(Kernel("k", (y,), b.body()), {"y": data})
    assert data.tolist() == [0, 0, 0, 0, 0, 1, 2, 3]


def test_threads_of_a_block_meet_at_barriers() -> None:
    """Each thread writes its element of shared memory; after the barrier it reads another's."""
    b = Builder()
    with b.loop("block", 0, 2, kind=LoopKind.BLOCK) as block:
        shared = b.local("tile", F32, 4, Space.SHARED)
        with b.loop("thread", 0, 4, kind=LoopKind.THREAD) as thread:
            at = build.add(build.mul(block, 4), thread)
            b.store(shared, thread, build.load(X, at))
            b.emit(Barrier())
            b.store(Y, at, build.load(shared, build.sub(3, thread)))
    y = np.empty(8, "f4")
    run_kernel(Kernel("k", (X, Y), b.body()), {"x": np.arange(8, dtype="f4"), "y": y})
    assert y.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


def test_threads_exchange_values() -> None:
    b = Builder()
    with b.loop("thread", 0, 8, kind=LoopKind.THREAD) as thread:
        total: Expr = b.let("own", build.load(X, thread))
        for distance in (1, 2, 4):
            total = b.let("total", build.apply(P.ADD, total, Exchange(total, distance)))
        b.store(Y, thread, total)
    y = np.empty(8, "f4")
    run_kernel(Kernel("k", (X, Y), b.body()), {"x": np.arange(8, dtype="f4"), "y": y})
    assert y.tolist() == [28.0] * 8


def test_sizes_are_given_at_run_time() -> None:
    n = Var("n", I64, low=0, high=100)
    x, y = Buffer("x", F32, n), Buffer("y", F32, n, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, n) as i:
        b.store(y, i, build.load(x, build.sub(build.sub(n, 1), i)))
    out = np.empty(3, "f4")
    run_kernel(
        Kernel("k", (x, y), b.body(), (n,)), {"x": np.float32([1, 2, 3]), "y": out}, {"n": 3}
    )
    assert out.tolist() == [3, 2, 1]


def test_the_arena_starts_poisoned() -> None:
    t = Slot("t", "t", F32, (4,), Role.TEMPORARY)
    y = Slot("y", "y", F32, (4,), Role.OUTPUT)
    program = Program("p", (), (y,), (t, y), (Copy(Argument(y), Argument(t), 4),), {}, 64)
    out = np.zeros(4, "f4")
    Interpreter(program).run({}, {"y": out})
    assert np.isnan(out).all()


def test_a_step_out_of_its_slot_is_a_fault() -> None:
    x, y = Slot("x", "sx", F32, (4,), Role.INPUT), Slot("y", "sy", F32, (4,), Role.OUTPUT)
    program = Program("p", (x,), (y,), (x, y), (Copy(Argument(y), Argument(x, 1), 4),), {})
    with pytest.raises(KernelFault, match="elements 1 to 5 of 'x', which has 4"):
        Interpreter(program).run({"x": np.ones(4, "f4")}, {"y": np.ones(4, "f4")})


def relay(last: int) -> Kernel:
    """Eight threads, of which each begins when the one before has counted; the first of them when
    `last` did.
    """
    b = Builder()
    with b.loop("block", 0, 1, kind=LoopKind.BLOCK):
        count = b.local("count", DType.I64, 1, Space.SHARED)
        with b.loop("thread", 0, 8, kind=LoopKind.THREAD) as thread:
            with b.when(build.apply(P.EQ, thread, build.index(0))):
                b.store(count, 0, build.index(last))
            b.emit(Barrier())
            b.wait(build.apply(P.EQ, build.load(count, 0), build.sub(7, thread)))
            b.store(Y, thread, build.cast(build.load(count, 0), F32))
            b.store(count, 0, build.index(1), atomic=P.ADD)
    return Kernel("relay", (Y,), b.body())


def test_threads_await_what_others_do() -> None:
    y = np.empty(8, "f4")
    run_kernel(relay(0), {"y": y})
    assert y.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(KernelFault, match="wait for a condition that the others never make true"):
        run_kernel(relay(1), {"y": y})


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("divided", [False, True])
def test_a_vector_of_one_index_gathers_one_element(masked: bool, divided: bool) -> None:
    x = Buffer("x", F32, 10)
    y = Buffer("y", F32, 8, access=Access.WRITE)
    at: Expr = Const(7, I64, 8)
    if divided:
        at = Apply(P.DIV, (Const(23, I64, 8), Const(3, I64, 8)), I64, 8)
    mask = Apply(P.LT, (Ramp(build.index(0), 1, 8), Const(5, I64, 8)), DType.BOOL, 8)
    read = Load(x, at, 8, mask if masked else None)
    kernel = Kernel("k", (x, y), (Store(y, build.index(0), read),))
    result = np.zeros(8, np.float32)
    run_kernel(kernel, {"x": np.arange(10, dtype=np.float32), "y": result})
    assert result.tolist() == [7.0] * 5 + [0.0 if masked else 7.0] * 3
