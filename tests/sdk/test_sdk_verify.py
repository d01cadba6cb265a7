"""The verifier of kernels: each rule is broken once, and the message says by whom."""

from __future__ import annotations

import pytest
from verify_pieces import BOOL, F16, F32, I64, LAST, ONE, ZERO, H, I, P, V, X, Y, Z

from xlac_sdk.conformance import cases
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
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
from xlac_sdk.kernel_ir.sharing import walk
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import VerifyError
from xlac_sdk.target import Target


def loop(*body: Stmt, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(I, ZERO, Const(8, I64), body, kind=kind)


def mapped(buffer: Buffer, box: tuple[int, ...], *extents: Expr) -> tuple[Stmt, ...]:
    """An instruction that is given a tensor map."""
    return (Instruction("copy", (TensorMap("m", buffer, ZERO, extents, extents[1:], box),), ()),)


BROKEN: list[tuple[str, tuple[Stmt, ...]]] = [
    ("'x' is only read, but written", (Store(X, ZERO, ONE),)),
    ("'y' is only written, but read", (Store(Y, ZERO, Load(Y, ZERO)),)),
    ("'y' is only written, but combined with what is there", (Store(Y, ZERO, ONE, atomic=P.ADD),)),
    (
        "'z' is read only where the kernel wrote it, but read before",
        (Store(Y, ZERO, Load(Z, ZERO)),),
    ),
    (
        "'z' is read only where the kernel wrote it, but read before",
        (loop(Store(Z, I, Load(Z, I))),),
    ),
    (
        "'z' is read only where the kernel wrote it, but read before",
        (Store(Z, ZERO, ONE, atomic=P.ADD),),
    ),
    ("a value of type i64 is stored into 'y', which holds f32", (Store(Y, ZERO, ZERO),)),
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
    (
        "'add' of f16: halves are cast to f32 first",
        (Let(Var("v", F16), Apply(P.ADD, (Load(H, ZERO),) * 2, F16)),),
    ),
    (
        "'add' meets operands of other lanes",
        (Let(Var("v", F32, 4), Apply(P.ADD, (ONE, Const(1.0, F32, 4)), F32, 4)),),
    ),
    ("a condition is not a scalar bool", (If(ONE, ()),)),
    (
        "is not the only statement of the kernel",
        (loop(kind=LoopKind.PARALLEL), Store(Y, ZERO, ONE)),
    ),
    (
        "is not the only statement of the kernel",
        (loop(For(Var("j", I64), ZERO, ZERO, (), kind=LoopKind.PARALLEL)),),
    ),
    (
        "'v' is assigned but is not mutable here",
        (Let(V, ONE, True), loop(Assign(V, ONE), kind=LoopKind.THREAD)),
    ),
    ("a barrier stands outside every THREAD loop", (Barrier(),)),
    ("a thread awaits something outside every THREAD loop", (Await(Const(True, BOOL)),)),
    ("what is awaited is not a scalar bool", (Await(ONE),)),
    ("buffer 'held' is used out of scope", mapped(Buffer("held", F32, 4), (4, 32), LAST, LAST)),
    ("the axes of tensor map 'm'", mapped(X, (4, 32), LAST)),
    ("the box of tensor map 'm' is (4, 16)", mapped(X, (4, 16), LAST, LAST)),
    ("the box of tensor map 'm' is (257, 32)", mapped(X, (257, 32), LAST, LAST)),
    ("'i' is used out of scope", mapped(X, (4, 32), I, LAST)),
    (
        "UNROLLED loop 'i' has no constant trip count",
        (For(I, ZERO, build.cast(Load(X, ZERO), I64), (), kind=LoopKind.UNROLLED),),
    ),
    ("300 is not a u8", (Let(Var("v", DType.U8), Const(300, DType.U8)),)),
    (
        "buffer 'held' is used out of scope",
        (Store(Buffer("held", F32, 4, Space.LOCAL), ZERO, ONE),),
    ),
    ("local 'held' has no constant size", (Allocate(Buffer("held", F32, 0, Space.LOCAL)),)),
    ("the mask of an access to 'x' is not 1 lanes of bool", (Let(V, Load(X, ZERO, 1, ONE)),)),
]


@pytest.mark.parametrize(("message", "body"), BROKEN, ids=[m for m, _ in BROKEN])
def test_a_broken_kernel_is_named(message: str, body: tuple[Stmt, ...]) -> None:
    with pytest.raises(VerifyError) as error:
        verify(Kernel("broken", (X, Y, Z, H), body))
    assert str(error.value).startswith("kernel broken: ") and message in str(error.value)


def test_every_conformance_case_verifies() -> None:
    for case in cases(Target("any", vector_bytes=32)):
        verify_program(case.program)


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
