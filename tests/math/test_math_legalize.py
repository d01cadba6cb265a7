"""What legalize does to a kernel: integers, corners, halves as bits, sharing, and what it leaves
alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from math_harness import BASIC, FUSED, MOVES, PLAIN, SCALING, TABLES, expanded, kernel_of
from work import calls

from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Apply,
    Buffer,
    Const,
    Expr,
    Kernel,
    Let,
    LoopKind,
    Stmt,
    children,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.semantics import evaluate
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Target

P = Primitive
INTEGERS = [d for d in DType if d.is_integer]
CORNERS = frozenset({P.DIV, P.REM, P.SHL, P.SHR, P.CAST})
GUARDED = Target("guarded", primitives=BASIC | MOVES | {P.REM, P.TRUNC, P.FLOOR}, guards=CORNERS)
HALFLESS = dataclasses.replace(PLAIN, dtypes=frozenset(d for d in DType if not d.is_half))


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    for stmt in body:
        yield stmt
        for block in children(stmt):
            yield from statements(block)


def applied(kernel: Kernel) -> list[Apply]:
    """Every operation of a kernel."""
    found: list[Expr] = [e for s in statements(kernel.body) for e in walk(roots(s))]
    return [e for e in found if isinstance(e, Apply)]


def whole(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of corners, and random pairs."""
    info, rng = np.iinfo(dtype.numpy), np.random.default_rng(2)
    corners = [
        info.min,
        info.max,
        info.max - 1,
        0,
        1,
        2,
        3,
        7,
        8,
        dtype.bits - 1,
        dtype.bits,
        dtype.bits + 1,
    ]
    corners += [info.min + 1, -1, -2, -3] if dtype.is_signed else []
    one = np.array([c for c in corners if info.min <= c <= info.max], dtype.numpy)
    x, y = (g.ravel() for g in np.meshgrid(one, one))
    bits = rng.integers(0, 256, (2, 2000 * dtype.nbytes), np.uint8).view(dtype.numpy)
    return np.concatenate([x, bits[0]]), np.concatenate([y, bits[1]])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(
    "primitive", [P.POPCNT, P.CLZ, P.ABS, P.NEG, P.NOT, P.MIN, P.MAX, P.LE, P.NE, P.POW]
)
def test_integers(primitive: P, dtype: DType) -> None:
    arrays = list(whole(dtype))[: primitive.arity]
    got = expanded(primitive, arrays, PLAIN)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, evaluate(primitive, tuple(arrays), DType.of(got.dtype)))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("primitive", [P.DIV, P.REM, P.SHL, P.SHR])
def test_corners_are_guarded(primitive: P, dtype: DType) -> None:
    arrays = whole(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            expanded(primitive, arrays, GUARDED), evaluate(primitive, arrays, dtype)
        )
    kernel = legalize(kernel_of(primitive, [dtype, dtype], 8), GUARDED)
    (native,) = [a for a in applied(kernel) if a.primitive is primitive and a.dtype is dtype]
    bound = {s.var: s.value for s in statements(kernel.body) if isinstance(s, Let)}
    safe = bound[native.operands[1]]  # type: ignore[index]
    assert isinstance(safe, Apply) and safe.primitive is P.SELECT, (
        "the second operand is a safe choice"
    )


def test_harmless_constants_are_not_guarded() -> None:
    b = Builder()
    out = Buffer("out", DType.I64, 64, access=Access.WRITE)
    with b.loop("i", 0, 64) as i:
        b.store(out, i, Apply(P.DIV, (i, Const(5, DType.I64)), DType.I64))
    kernel = Kernel("k", (out,), b.body())
    assert legalize(kernel, GUARDED) is kernel


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_casts_saturate(kind: Any, dtype: DType) -> None:
    edges = [float(np.iinfo(dtype.numpy).min), float(np.iinfo(dtype.numpy).max)]
    values = [0.0, -0.0, 0.5, -0.5, -1.0, 1.5, 1e30, -1e30, np.inf, -np.inf, np.nan, *edges]
    x = np.array(values, kind)
    x = np.concatenate(
        [x, np.nextafter(x, kind(np.inf)), np.nextafter(x, kind(-np.inf)), x + 1, x - 1]
    )
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            expanded(P.CAST, [x], GUARDED, dtype), evaluate(P.CAST, (x,), dtype)
        )


@pytest.mark.parametrize("half", [DType.F16, DType.BF16])
def test_every_half_widens(half: DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(half.numpy)
    for dtype in (DType.F32, DType.F64, DType.I32, DType.BOOL):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(
                expanded(P.CAST, [x], HALFLESS, dtype), evaluate(P.CAST, (x,), dtype)
            )


@pytest.mark.parametrize("half", [DType.F16, DType.BF16])
@pytest.mark.parametrize("source", [np.float32, np.float64, np.int32, np.bool_])
def test_halves_round_once(source: Any, half: DType) -> None:
    """Every half, the ties between neighbours, and a hair to either side of them."""
    with np.errstate(all="ignore"):
        steps = (
            np.arange(0x7C00 if half is DType.F16 else 0x7F80, dtype=np.uint16)
            .view(half.numpy)
            .astype(np.float64)
        )
        ties = (steps[1:] + steps[:-1]) / 2
        every = np.concatenate(
            [
                steps,
                ties,
                np.nextafter(ties, np.inf),
                np.nextafter(ties, 0),
                [np.inf, np.nan, 1e39, 65520.0],
            ]
        )
        x = np.concatenate([every, -every])
        if source is np.float32:
            x = np.concatenate([x, np.nextafter(ties.astype(np.float32), np.float32(np.inf))])
        x = (
            x[np.abs(np.nan_to_num(x)) < 2**31].astype(source)
            if source is np.int32
            else x.astype(source)
        )
        got, exact = expanded(P.CAST, [x], HALFLESS, half), evaluate(P.CAST, (x,), half)
    np.testing.assert_array_equal(got.astype(np.float64), exact.astype(np.float64))
    number = ~np.isnan(exact.astype(np.float64))
    np.testing.assert_array_equal(got.view(np.uint16)[number], exact.view(np.uint16)[number])


def test_halves_without_the_type_live_in_u16() -> None:
    kernel = legalize(kernel_of(P.ADD, [DType.BF16, DType.BF16], 16), HALFLESS)
    verify(kernel)
    assert {p.dtype for p in kernel.parameters} == {DType.U16}
    x = np.linspace(-3, 3, 16).astype(DType.BF16.numpy)
    out = np.zeros(16, np.uint16)
    run_kernel(kernel, {"x0": x.view(np.uint16), "x1": x.view(np.uint16), "out": out})
    np.testing.assert_array_equal(
        out.view(DType.BF16.numpy), (x.astype(np.float32) * 2).astype(DType.BF16.numpy)
    )


def test_a_legal_kernel_is_left_alone() -> None:
    kernel = kernel_of(P.ADD, [DType.F32, DType.F32], 64, lanes=16)
    assert legalize(kernel, PLAIN) is kernel


@pytest.mark.parametrize(
    "primitive",
    [p for p in P if p.arity == 1 and p not in (P.CAST, P.BITCAST, P.POPCNT, P.CLZ, P.NOT)],
)
@pytest.mark.parametrize("lanes", [1, 4])
def test_only_what_the_target_spells_is_left(primitive: P, lanes: int) -> None:
    kernel = legalize(kernel_of(primitive, [DType.F32], 16, lanes=lanes), PLAIN)
    verify(kernel)
    assert {a.primitive for a in applied(kernel)} <= PLAIN.primitives


@pytest.mark.parametrize(("primitive", "most"), [(P.TANH, 24), (P.GELU, 44)])
def test_coefficients_are_looked_up_instead_of_divisions(primitive: P, most: int) -> None:
    """Of f32, where the target looks up entries of tables: fewer operations, and no division."""
    kernel = kernel_of(primitive, [DType.F32], 16, lanes=16)
    pieces, whole = (applied(legalize(kernel, target)) for target in (TABLES, SCALING))
    found = {a.primitive for a in pieces}
    assert P.LOOKUP in found and P.DIV not in found
    assert len(pieces) <= most and len(pieces) < len(whole)
    assert P.LOOKUP not in {
        a.primitive
        for a in applied(legalize(kernel_of(primitive, [DType.F64], 8, lanes=8), TABLES))
    }


def test_a_shared_object_is_expanded_once() -> None:
    x, out = Buffer("x", DType.F32, 8), Buffer("out", DType.F32, 8, access=Access.WRITE)
    b = Builder()
    e = build.apply(P.EXP, build.load(x, build.ramp(0, 1, 8)))
    b.store(out, build.ramp(0, 1, 8), build.apply(P.ADD, e, build.apply(P.MUL, e, e)))
    twice = legalize(Kernel("k", (x, out), b.body()), FUSED)
    once = legalize(kernel_of(P.EXP, [DType.F32], 8, lanes=8), FUSED)
    assert len(applied(twice)) == len(applied(once)) + 2


def test_a_splat_is_expanded_as_a_scalar() -> None:
    x, out = Buffer("x", DType.F32, 1), Buffer("out", DType.F32, 8, access=Access.WRITE)
    b = Builder()
    b.store(out, build.ramp(0, 1, 8), build.apply(P.EXP, build.splat(build.load(x, 0), 8)))
    kernel = legalize(Kernel("k", (x, out), b.body()), PLAIN)
    assert all(a.lanes == 1 for a in applied(kernel))


def test_a_parallel_loop_stays_alone_in_its_kernel() -> None:
    """Bounds that need an expansion are written in place."""
    from xlac_sdk.kernel_ir.kernel import Var

    n, out = Var("n", DType.I64), Buffer("out", DType.I64, 64, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, build.apply(P.MIN, n, build.index(64)), kind=LoopKind.PARALLEL) as i:
        b.store(out, i, i)
    kernel = legalize(Kernel("k", (out,), b.body(), (n,)), PLAIN)
    assert kernel.parallel is not None
    result = np.zeros(64, np.int64)
    run_kernel(kernel, {"out": result}, {"n": 7})
    assert result[:7].tolist() == list(range(7)) and not result[7:].any()


def test_names_do_not_clash() -> None:
    """A kernel that already uses our names for its own."""
    x, out = Buffer("m1", DType.F32, 8), Buffer("m2", DType.F32, 8, access=Access.WRITE)
    b = Builder()
    with b.loop("m3", 0, 8) as i:
        b.store(out, i, build.apply(P.TANH, build.load(x, i)))
    kernel = legalize(Kernel("k", (x, out), b.body()), PLAIN)
    verify(kernel)
    data, result = np.linspace(-1, 1, 8, dtype=np.float32), np.zeros(8, np.float32)
    run_kernel(kernel, {"m1": data, "m2": result})
    np.testing.assert_allclose(result, np.tanh(data), rtol=1e-6)


def test_types_that_cannot_be_expanded_are_refused() -> None:
    single = dataclasses.replace(PLAIN, dtypes=PLAIN.dtypes - {DType.F64})
    with pytest.raises(UnsupportedError, match="f64"):
        legalize(kernel_of(P.EXP, [DType.F64], 8), single)


def chain(length: int) -> Kernel:
    """Four operations a link, one of them expanded."""
    x, out = Buffer("x", DType.F32, 8), Buffer("out", DType.F32, 8, access=Access.WRITE)
    b = Builder()
    value = b.let("v", build.load(x, build.ramp(0, 1, 8)))
    for k in range(length):
        value = b.let(
            "v",
            build.apply(
                P.EXP if k % 2 else P.TANH,
                build.apply(P.ADD, build.apply(P.MUL, value, value), value),
            ),
        )
    b.store(out, build.ramp(0, 1, 8), value)
    return Kernel("k", (x, out), b.body())


def test_twice_the_operations_are_twice_the_work() -> None:
    small, large = chain(200), chain(400)
    assert calls(lambda: legalize(large, FUSED)) < 2.2 * calls(lambda: legalize(small, FUSED))
