"""64-bit integers as two words (`xlac_sdk.lowering.long_integers`): every operation on them,
statements, and what stays an i32, against the same kernels in NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from long_integers import GPU, GUARDED, LONG, PLAIN, RICH, check, longs, of_expression, split

from xlac_sdk.conformance import cases
from xlac_sdk.conformance.values import arguments, special
from xlac_sdk.device import Device, MemoryPlace
from xlac_sdk.dtypes import DType
from xlac_sdk.host.plan import LaunchPlanner
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Apply, Buffer, Const, Kernel, Load, Store, statements
from xlac_sdk.kernel_ir.primitives import Primitive, operand_dtypes, result_dtype
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.kernel_ir.verify import applies, verify
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.program import Argument, Launch, Role, Slot
from xlac_sdk.source import UnsupportedError
from xlac_sdk.symbolic import Symbol
from xlac_sdk.target import MOST_ELEMENTS, Target

P, I32, U32, F32 = Primitive, DType.I32, DType.U32, DType.F32
I64, U64 = LONG
OTHERS = [d for d in DType if d.bits < 64]


def signatures() -> Iterator[tuple[Primitive, tuple[DType, ...], DType]]:
    """Every primitive on 64-bit integers, and conversions from and to every other type."""
    for primitive, dtype in itertools.product(Primitive, LONG):
        if primitive in (P.CAST, P.BITCAST, P.LDEXP):
            continue
        if applies(primitive, dtype) or primitive is P.SELECT:
            given = operand_dtypes(primitive, dtype)
            result = dtype if primitive is P.SELECT else result_dtype(primitive, given)
            yield primitive, given, result
    for dtype in LONG:
        for other in (*OTHERS, *(d for d in LONG if d is not dtype)):
            yield P.CAST, (dtype,), other
            yield P.CAST, (other,), dtype
    yield P.BITCAST, (I64,), U64
    yield P.BITCAST, (U64,), I64


@pytest.mark.parametrize("target", [PLAIN, RICH, GUARDED], ids=lambda t: t.name)
@pytest.mark.parametrize("primitive", sorted({p for p, _, _ in signatures()}, key=str))
@pytest.mark.sampled(8)
def test_every_operation(primitive: Primitive, target: Target) -> None:
    for which, operands, result in signatures():
        if which is not primitive or (which is P.POW and target is not RICH):
            continue
        arrays = arguments(primitive, operands, 16)
        if which is P.POW:  # expanded before, and slow
            arrays = tuple(a[::90] for a in arrays)
        count = len(arrays[0])
        inputs = [Buffer(f"x{k}", d, count) for k, d in enumerate(operands)]
        given = {b.name: a for b, a in zip(inputs, arrays, strict=True)}
        loads = tuple(Load(b, build.index(0), count) for b in inputs)
        check(of_expression(Apply(primitive, loads, result, count), inputs, count), given, target)


@pytest.mark.parametrize("dtype", LONG)
@pytest.mark.sampled(4)
def test_constants_as_second_operands(dtype: DType) -> None:
    numbers = special(dtype)
    x = Buffer("x", dtype, len(numbers))
    load = Load(x, build.index(0), len(numbers))
    for primitive in (P.ADD, P.MUL, P.DIV, P.REM, P.SHL, P.SHR, P.LT, P.AND):
        for number in (0, 1, 31, 32, 33, 48, 64, 10**10, *numbers[[0, -1]].tolist()):
            second = Const(number, dtype, len(numbers))
            kind = result_dtype(primitive, (dtype, dtype))
            value = Apply(primitive, (load, second), kind, len(numbers))
            check(of_expression(value, [x], len(numbers)), {"x": numbers}, RICH)


@pytest.mark.parametrize("dtype", LONG)
def test_bits_as_lanes_of_other_types(dtype: DType) -> None:
    values = arguments(P.BITCAST, (dtype,), 4)[0][:4]
    x = Buffer("x", dtype, 4)
    load = Load(x, build.index(0), 4)
    for other in (DType.U8, DType.I16, U32, F32):
        lanes = 4 * 64 // other.bits
        parts = Apply(P.BITCAST, (load,), other, lanes)
        check(of_expression(parts, [x], lanes), {"x": values & 0x3FFFFFFF3FFFFFFF}, RICH)
        again = Apply(P.BITCAST, (parts,), dtype, 4)
        check(of_expression(again, [x], 4), {"x": values}, RICH)
    one = Apply(P.BITCAST, (Load(x, build.index(1)),), U32, 2)
    check(of_expression(one, [x], 2), {"x": values}, RICH)
    check(of_expression(Apply(P.BITCAST, (one,), dtype), [x], 1), {"x": values}, RICH)


# ---- statements ------------------------------------------------------------------------------


def test_indices_stay_expressions_of_i32() -> None:
    """A kernel of constant sizes has as many statements as before, and no words."""
    x = Buffer("x", F32, 600)
    y = Buffer("y", F32, 600, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, 20) as i, b.loop("j", 0, 30) as j:
        at = build.add(build.mul(i, 30), j)
        there = build.add(build.mul(build.mod(at, 7), 80), build.div(at, 30))
        with b.when(build.apply(P.LT, there, build.index(550))):
            b.store(y, at, build.load(x, b.let("there", there)))
    kernel = Kernel("k", (x, y), b.body())
    made = split(kernel, RICH)
    assert len([*statements(made.body)]) == len([*statements(kernel.body)])
    kinds = {e.dtype for s in statements(made.body) for e in walk(roots(s))}
    assert kinds == {I32, F32, DType.BOOL}


def test_variables_names_and_local_memory() -> None:
    """A running total, a name of a wide value and of a narrow one, a local buffer."""
    x = Buffer("x", I64, 12)
    y = Buffer("y", I64, 12, access=Access.WRITE)
    b = Builder()
    held = b.local("held", I64, 12)
    total = b.variable("total", Const(-5, I64))
    with b.loop("i", 0, 12) as i:
        value = b.let("value", build.apply(P.MUL, build.load(x, i), total))
        b.assign(total, build.apply(P.ADD, value, total))
        b.store(held, build.sub(11, i), build.apply(P.XOR, total, b.let("third", build.div(i, 3))))
    with b.loop("j", 0, 12) as j:
        b.store(held, j, build.apply(P.ADD, build.load(held, j), build.load(held, j)))
        b.store(y, j, build.load(held, j))
    given = {"x": np.arange(12, dtype=np.int64) * 0x123456789ABC - 7}
    check(Kernel("k", (x, y), b.body()), given, RICH)


def test_bounds_of_loops_that_are_data() -> None:
    x = Buffer("x", I64, 4)
    y = Buffer("y", I64, 1, access=Access.WRITE)
    b = Builder()
    total = b.variable("total", Const(0, I64))
    for k in (0, 2):
        with b.loop("i", build.load(x, k), build.load(x, k + 1)) as i:
            b.assign(total, build.apply(P.ADD, total, i))
    b.store(y, 0, total)
    kernel = Kernel("k", (x, y), b.body())
    far = [(1 << 31) - 1, (1 << 31) + 2, -(1 << 40) - 3, -(1 << 40)]
    for values in ([3, 9, -5, 2], [0, -(1 << 40), 7, 1 << 3], [1 << 63 - 1, 7, 5, 5], far):
        check(kernel, {"x": np.array(values, np.int64)}, RICH)


def test_words_of_a_counter_are_named_where_they_are_used() -> None:
    """In a branch, in a loop inside it, and after it: each has its own."""
    x = Buffer("x", I64, 6)
    y = Buffer("y", I64, 6, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, 6) as i:
        value = build.load(x, i)
        b.store(y, i, value)
        with b.when(build.apply(P.LT, value, Const(3, I64))):
            with b.loop("j", 0, 2), b.when(build.apply(P.LT, value, Const(2, I64))):
                b.store(y, i, build.apply(P.XOR, i, value))
            b.store(y, i, build.apply(P.SUB, i, value))
        with b.when(build.apply(P.LT, Const(3, I64), value)):
            b.store(y, i, build.apply(P.ADD, i, value))
    check(Kernel("k", (x, y), b.body()), {"x": np.array([1 << 40, -9, 2, 1, 4, 7], np.int64)}, RICH)


def test_sums_over_vectors_of_odd_lanes() -> None:
    x = Buffer("x", U64, 7)
    load = Load(x, build.index(0), 7)
    given = {"x": special(U64)[:7]}
    for primitive in (P.ADD, P.MUL, P.MAX, P.MIN, P.XOR):
        check(of_expression(build.fold(primitive, load), [x], 1), given, RICH)


class NoDevice(Device):
    """Plans are made for it, and never run."""

    def _nothing(self, *given: object) -> None:
        raise AssertionError("nothing is run")

    alloc = copy = launch = sync = free = _nothing


# ---- the kit, and what is refused ------------------------------------------------------------


@pytest.mark.parametrize("target", [RICH, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("part", range(48))
@pytest.mark.sampled(48)
def test_nothing_of_64_bits_is_left_of_the_kit(target: Target, part: int) -> None:
    chosen = [*cases(target)][part::48]
    for case in chosen:
        for kernel in grids(case.program, target).kernels:
            verify(kernel)
            assert not longs(kernel), f"{case.name}: {kernel.name}"
    assert chosen


def test_atomic_operations_are_refused() -> None:
    y = Buffer("y", I64, 3, access=Access.UPDATE)
    kernel = Kernel("k", (y,), (Store(y, build.index(0), Const(1, I64), atomic=P.ADD),))
    with pytest.raises(UnsupportedError, match="no 64-bit integers, and so no atomic 'add' of i64"):
        split(kernel, RICH)


def test_large_buffers_and_long_loops_are_refused() -> None:
    y = Buffer("y", I64, MOST_ELEMENTS // 2 + 1, access=Access.WRITE)
    kernel = Kernel("k", (y,), (Store(y, build.index(0), Const(1, I64)),))
    with pytest.raises(UnsupportedError, match="a buffer of 1,073,741,826 elements of u32"):
        split(kernel, RICH)
    small = Buffer("y", I64, 1, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, 1 << 40) as i:
        b.store(small, 0, i)
    with pytest.raises(UnsupportedError, match="no loop to 1,099,511,627,776"):
        split(Kernel("k", (small,), b.body()), RICH)


def test_a_target_has_both_types_or_neither_and_doubles_with_them() -> None:
    for wrong in (frozenset(DType) - {I64}, frozenset(DType) - {I64, U64}):
        with pytest.raises(ValueError, match="i64 and u64 are among its dtypes or both lacking"):
            Target("wrong", dtypes=wrong)


def test_a_call_with_sizes_beyond_is_refused() -> None:
    """The planner knows the sizes: one, or a buffer over them, beyond 2^30 is no i32 index."""
    n, k = (build.size_var(Symbol(name, 0)) for name in "nk")
    y = Buffer("y", I64, build.mul(n, k), access=Access.UPDATE)
    b = Builder()
    with b.loop("i", 0, build.mul(n, k)) as i:
        b.store(y, i, build.mul(i, 1 << 20))
    kernel = split(Kernel("k", (y,), b.body(), (n, k)), RICH)
    assert not longs(kernel)
    slot = Slot("y", "y", I64, (1,), Role.OUTPUT)
    planner = LaunchPlanner(NoDevice(), {slot: MemoryPlace(1)})
    for sizes in ((1, MOST_ELEMENTS + 1), (1 << 16, 1 << 15)):
        with pytest.raises(UnsupportedError, match="that 32-bit indices reach"):
            [*planner.steps((Launch(kernel, (Argument(slot),), sizes),), {})]
    assert len([*planner.steps((Launch(kernel, (Argument(slot),), (3, 4)),), {})]) == 1
    y32 = np.zeros(24, np.uint32)
    run_kernel(kernel, {"y": y32}, {"size_n": 3, "size_k": 4})
    assert y32.view(np.int64).tolist() == [i << 20 for i in range(12)]
