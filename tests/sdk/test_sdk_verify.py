"""The verifiers: each rule is broken once, and the message says by whom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xlac_sdk.conformance import cases
from xlac_sdk.conformance.steps import chain
from xlac_sdk.dims import Symbol, symbol, symbols
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Apply,
    Assign,
    Await,
    Barrier,
    Buffer,
    Const,
    Expr,
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
    TensorMap,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import walk
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.programs.program import (
    Argument,
    Case,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Step,
)
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError
from xlac_sdk.target import Target

P, F32, F16, I64, BOOL = Primitive, DType.F32, DType.F16, DType.I64, DType.BOOL
X = Buffer("x", F32, 8)
Y = Buffer("y", F32, 8, access=Access.WRITE)
Z = Buffer("z", F32, 8, access=Access.REREAD)
H = Buffer("h", F16, 8)
ZERO, ONE, LAST = Const(0, I64), Const(1.0, F32), Const(1, I64)
I, V = Var("i", I64), Var("v", F32)


def loop(*body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(I, ZERO, Const(8, I64), body, kind=kind)


def mapped(buffer: Buffer, box: tuple[int, ...], *extents: Expr) -> tuple[Stmt, ...]:
    """An instruction that is given a tensor map."""
    return (Instruction("copy", (TensorMap("m", buffer, ZERO, extents, extents[1:], box),), ()),)


BROKEN: list[tuple[str, tuple[Stmt, ...]]] = [
    ("'x' is only read, but written", (Store(X, ZERO, ONE),)),
    ("'y' is only written, but read", (Store(Y, ZERO, Load(Y, ZERO)),)),
    ("'y' is only written, but combined with what is there", (Store(Y, ZERO, ONE, atomic=P.ADD),)),
    ("'z' is read only where the kernel wrote it, but read before", (Store(Y, ZERO, Load(Z, ZERO)),)),
    ("'z' is read only where the kernel wrote it, but read before", (loop(Store(Z, I, Load(Z, I))),)),
    ("'z' is read only where the kernel wrote it, but read before", (Store(Z, ZERO, ONE, atomic=P.ADD),)),
    ("a i64 is stored into 'y', which holds f32", (Store(Y, ZERO, ZERO),)),
    ("'v' is used out of scope", (Store(Y, ZERO, V),)),
    ("'v' is used out of scope", (loop(Let(V, ONE)), Store(Y, ZERO, V))),
    ("'v' is assigned but is not mutable here", (Let(V, ONE), Assign(V, ONE))),
    ("'v' is bound again while it is visible", (Let(V, ONE), loop(Let(V, ONE)))),
    ("'v' is f32x1 but is given i64x1", (Let(V, ZERO),)),
    ("'2x' is not an identifier", (Let(Var("2x", F32), ONE),)),
    ("'add' meets f32, i64", (Let(V, Apply(P.ADD, (ONE, ZERO), F32)),)),
    ("'add' is given 1 operands", (Let(V, Apply(P.ADD, (ONE,), F32)),)),
    ("'lt' of f32 is said to be f32", (Let(V, Apply(P.LT, (ONE, ONE), F32)),)),
    ("'and' of f32", (Let(V, Apply(P.AND, (ONE, ONE), F32)),)),
    ("'add' of f16: halves are cast to f32 first", (Let(Var("v", F16), Apply(P.ADD, (Load(H, ZERO),) * 2, F16)),)),
    ("'add' meets operands of other lanes", (Let(Var("v", F32, 4), Apply(P.ADD, (ONE, Const(1.0, F32, 4)), F32, 4)),)),
    ("a condition is not a scalar bool", (If(ONE, ()),)),
    ("is not the only statement of the kernel", (loop(kind=LoopKind.PARALLEL), Store(Y, ZERO, ONE))),
    ("is not the only statement of the kernel", (loop(For(Var("j", I64), ZERO, ZERO, (), kind=LoopKind.PARALLEL)),)),
    ("'v' is assigned but is not mutable here", (Let(V, ONE, True), loop(Assign(V, ONE), kind=LoopKind.THREAD))),
    ("a barrier stands outside every THREAD loop", (Barrier(),)),
    ("a thread awaits something outside every THREAD loop", (Await(Const(True, BOOL)),)),
    ("what is awaited is not a scalar bool", (Await(ONE),)),
    ("buffer 'held' is used out of scope", mapped(Buffer("held", F32, 4), (4, 32), LAST, LAST)),
    ("the axes of tensor map 'm'", mapped(X, (4, 32), LAST)),
    ("the box of tensor map 'm' is (4, 16)", mapped(X, (4, 16), LAST, LAST)),
    ("the box of tensor map 'm' is (257, 32)", mapped(X, (257, 32), LAST, LAST)),
    ("'i' is used out of scope", mapped(X, (4, 32), I, LAST)),
    ("UNROLLED loop 'i' has no constant trip count", (For(I, ZERO, build.cast(Load(X, ZERO), I64), (), kind=LoopKind.UNROLLED),)),
    ("300 is not a u8", (Let(Var("v", DType.U8), Const(300, DType.U8)),)),
    ("buffer 'held' is used out of scope", (Store(Buffer("held", F32, 4, Space.LOCAL), ZERO, ONE),)),
    ("local 'held' has no constant size", (Allocate(Buffer("held", F32, 0, Space.LOCAL)),)),
    ("the mask of an access to 'x' is not 1 lanes of bool", (Let(V, Load(X, ZERO, 1, ONE)),)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "body"), BROKEN, ids=[m for m, _ in BROKEN])
def test_a_broken_kernel_is_named(message: str, body: tuple[Stmt, ...]) -> None:
    with pytest.raises(VerifyError) as error:
        verify(Kernel("broken", (X, Y, Z, H), body))
    assert str(error.value).startswith("kernel broken: ") and message in str(error.value)


def test_every_conformance_case_verifies() -> None:
    for case in cases(Target("any", vector_bytes=32)):
        verify_program(case.program)


# ---- programs --------------------------------------------------------------------------------


def slot(symbol: str, role: Role, size: int = 4, offset: int = 0) -> Slot:
    return Slot(symbol, symbol, F32, (size,), role, offset)


def program(
    slots: tuple[Slot, ...], *steps: Step, arena: int = 0, sizes: tuple[Symbol, ...] = ()
) -> Program:
    inputs, outputs = (tuple(s for s in slots if s.role is r) for r in (Role.INPUT, Role.OUTPUT))
    return Program("p", inputs, outputs, slots, steps, {}, arena, sizes=sizes)


A, B, T, U = (
    slot("a", Role.INPUT),
    slot("b", Role.OUTPUT),
    slot("t", Role.TEMPORARY),
    slot("u", Role.TEMPORARY),
)


def copy(
    target: Slot, source: Slot, *, at: int = 0, strides: tuple[tuple[str, int], ...] = ()
) -> Copy:
    return Copy(Argument(target, at, strides), Argument(source), 4)


OPEN = symbol("n", 2, 8, multiple_of=2)
(N,), (K,) = symbols(OPEN), symbols(symbol("k"))


def updates(access: Access, slot: Slot) -> Launch:
    """A launch that adds to what its one parameter holds."""
    held = Buffer("held", F32, 4, access=access)
    body: tuple[Stmt, ...] = (Store(held, ZERO, build.apply(P.ADD, Load(held, ZERO), ONE)),)
    if access is Access.REREAD:
        body = (Store(held, ZERO, ONE), *body)
    return Launch(Kernel("adds", (held,), body), (Argument(slot),))


def chosen(size: Symbol, value: int, *steps: Step) -> Choice:
    return Choice((Case(((size, value),), steps),), ())


def overlapping() -> tuple[Step, ...]:
    return copy(T, A), copy(U, A), copy(B, T), copy(B, U)


def test_a_case_is_walked_at_its_own_sizes_only() -> None:
    """Four elements are right for calls of that size alone; what one path keeps alive does not bind
    another.
    """
    four = (copy(T, A), copy(B, T))
    verify_program(program((A, B, T, U), chosen(N, 4, *four), arena=64, sizes=(N,)))
    verify_program(
        program(
            (A, B, T, U),
            Choice((Case(((N, 4),), four),), (copy(U, A), copy(B, U))),
            arena=64,
            sizes=(N,),
        )
    )
    small = Case(((N, 4),), (Copy(Argument(B), Argument(A), OPEN),))
    verify_program(program((A, B), Choice((small,), ()), sizes=(N,)))


def test_a_planted_lifetime_is_caught_by_name() -> None:
    """`b` of the chain is moved onto `a`, which is still read."""
    good = chain().program
    verify_program(good)
    planted = {
        s: Slot(s.name, s.symbol, s.dtype, s.shape, s.role, 0) for s in good.slots if s.name == "b"
    }

    def moved(step: Step) -> Step:
        assert isinstance(step, Launch)
        return Launch(
            step.kernel, tuple(Argument(planted.get(a.slot, a.slot)) for a in step.arguments)
        )

    slots = tuple(planted.get(s, s) for s in good.slots)
    bad = Program("p", good.inputs, good.outputs, slots, tuple(map(moved, good.steps)), {}, 128)
    with pytest.raises(
        VerifyError, match=r"slots 'a' .* and 'b' .* share memory while both are live"
    ):
        verify_program(bad)


def test_a_value_from_before_a_loop_lives_through_it() -> None:
    steps = (copy(T, A), Repeat("n", 3, (copy(B, T), copy(U, A), copy(B, U))))
    with pytest.raises(VerifyError, match="share memory while both are live"):
        verify_program(program((A, B, T, U), *steps, arena=64))


def test_what_is_updated_holds_something() -> None:
    """A copy, a launch or a state that was there before; a kernel that reads only what it wrote
    needs none.
    """
    S = Slot("s", "s", F32, (4,), Role.STATE)
    add = updates(Access.UPDATE, T)
    verify_program(program((A, B, T), copy(T, A), add, copy(B, T), arena=64))
    verify_program(program((B, T), updates(Access.REREAD, T), add, copy(B, T), arena=64))
    verify_program(replace(program((B, S), updates(Access.UPDATE, S), copy(B, S)), state_bytes=64))
    verify_program(program((A, B, T), copy(T, A), Repeat("n", 3, (add,)), copy(B, T), arena=64))


def test_memory_may_be_given_on() -> None:
    verify_program(program((A, B, T, U), copy(T, A), copy(B, T), copy(U, A), copy(B, U), arena=64))


@pytest.mark.parametrize(
    ("message", "bad"),
    [
        (
            "'t' takes bytes 64 to 80 of a block of 64",
            program((A, slot("t", Role.TEMPORARY, offset=64)), arena=64),
        ),
        (
            "at byte 8 is not aligned to 64",
            program((A, slot("t", Role.TEMPORARY, offset=8)), arena=64),
        ),
        ("two slots are called 'a'", program((A, slot("a", Role.OUTPUT)))),
        ("reads 't' before anything was written there", program((B, T), copy(B, T), arena=64)),
        (
            "kernel adds updates 't' before anything was written there",
            program((B, T), updates(Access.UPDATE, T), copy(B, T), arena=64),
        ),
        (
            "kernel adds updates 'b' before anything was written there",
            program((B,), updates(Access.UPDATE, B)),
        ),
        (
            "updates 't' before",
            program(
                (A, B, T),
                Repeat("n", 3, (updates(Access.UPDATE, T), copy(T, A))),
                copy(B, T),
                arena=64,
            ),
        ),
        (
            "updates 't' before",
            program(
                (A, B, T), chosen(N, 4, updates(Access.UPDATE, T), copy(B, T)), arena=64, sizes=(N,)
            ),
        ),
        ("writes 'a', which is only read", program((A, B), copy(A, A))),
        ("reaches elements 2 to 6 of 'b'", program((A, B), copy(B, A, at=2))),
        (
            "reaches elements 0 to 8 of 'b'",
            program((A, B), Repeat("n", 3, (copy(B, A, strides=(("n", 2),)),))),
        ),
        (
            "moves 'b' with 'm', which no loop around counts",
            program((A, B), copy(B, A, strides=(("m", 2),))),
        ),
        ("is given 'b' twice, and writes it", program((A, B), copy(B, A), copy(B, B))),
        ("uses 'b', which the program does not declare", program((A,), copy(B, A))),
        ("constant 'c' has no data", program((slot("c", Role.CONSTANT),))),
        (
            "takes 2 buffers, not 1",
            program((A, B), Launch(Kernel("k", (X, Y), ()), (Argument(A),))),
        ),
        ("a case is for 'k', which is no size", program((A, B), chosen(K, 4))),
        ("a case is for n=9, which no call has", program((A, B), chosen(N, 9), sizes=(N,))),
        ("a case is for n=3, which no call has", program((A, B), chosen(N, 3), sizes=(N,))),
        ("a case names no size", program((A, B), Choice((Case((), ()),), ()), sizes=(N,))),
        (
            "reads 't' before anything was written there",
            program((A, B, T), chosen(N, 4, copy(B, T)), arena=64, sizes=(N,)),
        ),
        (
            "share memory while both are live",
            program((A, B, T, U), chosen(N, 4, *overlapping()), arena=64, sizes=(N,)),
        ),
        (
            "share memory while both are live",
            program((A, B, T, U), Choice((), overlapping()), arena=64),
        ),
        (
            "reaches elements 0 to 8 of 'a'",
            program((A, B), chosen(N, 8, Copy(Argument(B), Argument(A), OPEN)), sizes=(N,)),
        ),
        ("is not an identifier", program((Slot("a", "a b", F32, (4,), Role.INPUT),))),
    ],
)
def test_a_broken_program_is_named(message: str, bad: Program) -> None:
    with pytest.raises(VerifyError) as error:
        verify_program(bad)
    assert message in str(error.value)


def test_what_is_shared_is_looked_at_once() -> None:
    """Two hundred sums of a value with itself: as a tree they would never end."""
    total: Expr = V
    for _ in range(200):
        total = Apply(P.ADD, (total, total), F32)
    again = Apply(P.ADD, (total, V), F32)
    kernel = Kernel("shared", (Y,), (Let(V, ONE), Store(Y, ZERO, total), Store(Y, LAST, again)))
    verify(kernel)
    assert legalize(kernel, Target("any")) is kernel
    assert len(walk((total, again))) == 202
