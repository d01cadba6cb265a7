"""Kernels as grids: the rules, each broken once, and kernels of other forms that give the same when
they are spread.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sampling import Some

from xlac_sdk.conformance import cases
from xlac_sdk.conformance.case import EXACT, difference
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.grid import grid, places
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Assign,
    Barrier,
    Buffer,
    Const,
    Exchange,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    LoopKind,
    Space,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.spread import spread
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError
from xlac_sdk.target import Target

P, F32, I64 = Primitive, DType.F32, DType.I64
X, Y = Buffer("x", F32, 64), Buffer("y", F32, 64, access=Access.WRITE)
TILE = Buffer("tile", F32, 32, Space.SHARED)
ZERO, ONE = Const(0, I64), Const(1.0, F32)
BLOCK, THREAD, V = Var("b", I64, low=0, high=1), Var("t", I64, low=0, high=31), Var("v", F32)
FEW = build.apply(P.LT, THREAD, build.index(7))


def threads(*body: Stmt, count: int = 32) -> For:
    return For(THREAD, ZERO, Const(count, I64), body, kind=LoopKind.THREAD)


def blocks(*body: Stmt) -> For:
    return For(BLOCK, ZERO, Const(2, I64), body, kind=LoopKind.BLOCK)


ALONE = "only some threads of a block may come"
NO_GRID = "is no BLOCK loop around SHARED buffers and one THREAD loop of constant length"
BIT = Var("c", DType.BOOL)
SMALL = build.apply(P.LT, Load(TILE, THREAD), ONE)
ONE_WAITS = If(build.apply(P.LT, V, ONE), (Barrier(),))
INNER = replace(threads(), counter=Var("i", I64))
EXCHANGED = Let(V, Exchange(ONE, 16))
BROKEN: list[tuple[str, tuple[Stmt, ...]]] = [
    (NO_GRID, (threads(Store(Y, THREAD, ONE)),)),
    (NO_GRID, (blocks(threads()), blocks(threads()))),
    (NO_GRID, (blocks(threads(), Store(Y, ZERO, ONE)),)),
    (NO_GRID, (For(BLOCK, ZERO, Const(2, I64), (Allocate(TILE),)),)),
    ("loop 't' does not count from 0 by 1", (blocks(replace(threads(), step=2)),)),
    ("does more in a block than allocate SHARED", (blocks(Let(V, ONE), threads(Barrier())),)),
    ("loop 'i' is thread, inside the loop of threads", (blocks(threads(INNER)),)),
    ("'tile' is SHARED but allocated by a thread", (blocks(threads(Allocate(TILE))),)),
    (ALONE, (blocks(threads(If(FEW, (Barrier(),)))),)),
    (ALONE, (blocks(threads(If(FEW, (), (Let(V, Exchange(ONE, 1)),)))),)),
    (ALONE, (blocks(threads(For(Var("i", I64), ZERO, THREAD, (Barrier(),)))),)),
    (ALONE, (blocks(threads(Let(BIT, FEW), If(BIT, (Barrier(),)))),)),
    (ALONE, (blocks(Allocate(TILE), threads(Store(TILE, THREAD, ONE), If(SMALL, (Barrier(),)))),)),
    (ALONE, (blocks(threads(Let(V, ONE, True), If(FEW, (Assign(V, ONE),)), ONE_WAITS)),)),
    (ALONE, (blocks(threads(If(FEW, (Instruction("any", (), (Barrier(),)),)))),)),
    ("an exchange over 16 among 24 threads", (blocks(threads(EXCHANGED, count=24)),)),
]


@pytest.mark.parametrize(
    ("message", "body"), BROKEN, ids=[f"{n}: {m[:40]}" for n, (m, _) in enumerate(BROKEN)]
)
def test_a_broken_grid_is_named(message: str, body: tuple[Stmt, ...]) -> None:
    with pytest.raises(VerifyError) as error:
        verify(Kernel("broken", (X, Y), body))
    assert str(error.value).startswith("kernel broken: ") and message in str(error.value)


def test_conditions_that_all_threads_share_are_no_fault() -> None:
    """A block's number, a size, what is read at a place of those, or from memory that the block
    shares: all threads of a block go the same way."""
    size = Var("n", I64, low=0, high=64)
    same = build.apply(P.LT, Load(X, BLOCK), ONE)
    body = threads(
        If(build.apply(P.LT, Load(TILE, ZERO), ONE), (Barrier(),)),
        If(build.apply(P.LT, BLOCK, size), (Barrier(), Let(V, Exchange(ONE, 16)))),
        If(same, (For(Var("i", I64), ZERO, size, (Barrier(),)),)),
    )
    verify(Kernel("fine", (X, Y), (blocks(Allocate(TILE), body),), (size,)))


def test_what_a_loop_assigns_at_its_end_counts_at_its_start() -> None:
    """The first time round all threads agree on the condition; the second time they need not."""
    going = Var("going", DType.BOOL)
    turn = For(Var("i", I64), ZERO, Const(2, I64), (If(going, (Barrier(),)), Assign(going, FEW)))
    with pytest.raises(VerifyError, match=ALONE):
        verify(
            Kernel(
                "broken",
                (X, Y),
                (blocks(threads(Let(going, Const(True, DType.BOOL), True), turn)),),
            )
        )


def test_every_conformance_case_gives_the_same_as_a_grid(some: Some) -> None:
    """Loops, serial kernels, symbolic sizes, steps around them: spread, verified and interpreted; a
    fourth of those without a loop, with --all each.
    """
    parallel, chosen = 0, list(cases(Target("any")))
    loops = [
        case
        for case in chosen
        if any(kernel.parallel is not None for kernel in case.program.kernels)
    ]
    for case in (*loops, *some([case for case in chosen if case not in loops], 4)):
        made = with_kernels(case.program, lambda kernel: spread(kernel, 4))
        assert all(grid(kernel) is not None for kernel in made.kernels)
        parallel += sum(kernel.parallel is not None for kernel in case.program.kernels)
        verify_program(made)
        sizes = of_call(case.program, case.inputs)
        outcomes = []
        for program in (case.program, made):
            outputs = {s.name: np.zeros(s.extents(sizes), s.dtype.numpy) for s in program.outputs}
            Interpreter(program).run(case.inputs, outputs)
            outcomes.append(outputs)
        for name, expected in outcomes[0].items():
            assert not difference(outcomes[1][name], expected, EXACT, {}), case.name
    assert parallel > 1


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33])
def test_a_spread_loop_of_open_length_has_as_many_threads(count: int) -> None:
    n = Var("n", I64, low=0, high=64)
    x, y = Buffer("x", F32, n), Buffer("y", F32, n, access=Access.WRITE)
    p = Var("p", I64, low=0, high=63, below=n)
    loop = For(
        p, ZERO, n, (Store(y, p, build.apply(P.ADD, Load(x, p), ONE)),), kind=LoopKind.PARALLEL
    )
    made = spread(Kernel("plus", (x, y), (loop,), (n,)), 32)
    verify(made)
    found = grid(made)
    assert (
        found is not None and found.threads == 32 and found.count({"n": count}) == -(-count // 32)
    )
    given, result = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
    run_kernel(made, {"x": given, "y": result}, {"n": count})
    np.testing.assert_array_equal(result, given + 1)


def test_shared_buffers_have_places_that_are_aligned_and_apart() -> None:
    """The one that asks for most comes first, whatever the order of allocations."""
    small, large = (
        Buffer("a", DType.U8, 3, Space.SHARED, align=1),
        Buffer("b", F32, 5, Space.SHARED, align=128),
    )
    third = Buffer("c", DType.F64, 2, Space.SHARED, align=8)
    assert places((small, large, third)) == {large: 0, small: 32, third: 48}
    found = grid(
        Kernel("k", (), (blocks(Allocate(small), Allocate(large), Allocate(third), threads()),))
    )
    assert found is not None and found.shared_bytes == 64
