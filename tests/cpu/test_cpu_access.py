"""Loads and stores of every kind, statements and control flow, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_programs import both, kernel_of, machine, program_of, same, samples
from processors import needs_processor

from xlac_cpu import BACKEND
from xlac_cpu.emit.loops import addresses
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import add, apply, cast, index, load, mul, ramp, select
from xlac_sdk.kernel_ir.kernel import Const, If, LoopKind, Ramp, Shuffle, Store
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import LimitError

P = Primitive
F32, I64, I32 = DType.F32, DType.I64, DType.I32


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("lanes,cpu", [(1, ""), (3, ""), (16, ""), (64, ""), (16, "x86-64-v3")])
def test_masked_tails(dtype: DType, lanes: int, cpu: str) -> None:
    """Lanes beyond the end are neither read nor written; those read give zero."""
    needs_processor(cpu)
    count = 64 * 2 + 5

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, count, lanes) as i:
            at = ramp(i, 1, lanes)
            inside = apply(P.LT, at, Const(count, I64, lanes))
            value = load(buffers["x"], at, mask=inside)
            b.store(buffers["y"], at, value, inside)
            b.store(buffers["all"], at, value)

    room = (count + lanes - 1) // lanes * lanes
    kernel = kernel_of(body, {"x": (dtype, count)}, {"y": (dtype, count), "all": (dtype, room)})
    ours, right = both(kernel, machine(cpu=cpu), x=np.resize(samples(dtype, 100, 1), count))
    assert same(ours["y"], right["y"]) and same(ours["all"], right["all"])


@pytest.mark.parametrize("dtype", [F32, DType.F64, DType.F16, DType.I8, I32, I64, DType.BOOL])
@pytest.mark.parametrize("stride", [-3, -1, 1, 2, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_strided_reads_and_writes(dtype: DType, stride: int, masked: bool) -> None:
    lanes, count = 8, 64
    start = 0 if stride > 0 else -stride * (lanes - 1)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 8) as i:
            there = ramp(add(i, start), stride, lanes)
            mask = (
                apply(
                    P.NE,
                    apply(P.REM, ramp(i, 1, lanes), Const(3, I64, lanes)),
                    Const(0, I64, lanes),
                )
                if masked
                else None
            )
            value = load(buffers["x"], there, mask=mask)
            b.store(buffers["read"], ramp(mul(i, lanes), 1, lanes), value)
            b.store(
                buffers["write"], there, load(buffers["x"], ramp(mul(i, lanes), 1, lanes)), mask
            )

    kernel = kernel_of(
        body, {"x": (dtype, count)}, {"read": (dtype, count), "write": (dtype, count)}
    )
    ours, right = both(kernel, machine(), x=np.resize(samples(dtype, 60, 2), count))
    assert same(ours["read"], right["read"]) and same(ours["write"], right["write"])


@pytest.mark.parametrize("dtype", [F32, DType.F64, DType.BF16, DType.U8, DType.BOOL])
@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
def test_gathers_and_scatters(dtype: DType, cpu: str) -> None:
    needs_processor(cpu)
    count, lanes = 96, 8
    order = np.random.default_rng(3).permutation(count)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, count, lanes) as i:
            at = ramp(i, 1, lanes)
            wide = load(buffers["order"], at)
            narrow = cast(load(buffers["order32"], at), I64)
            odd = apply(P.EQ, apply(P.AND, wide, Const(1, I64, lanes)), Const(1, I64, lanes))
            b.store(buffers["gathered"], at, load(buffers["x"], wide))
            b.store(buffers["some"], at, load(buffers["x"], narrow, mask=odd))
            b.store(buffers["scattered"], wide, load(buffers["x"], at))
            b.store(buffers["few"], narrow, load(buffers["x"], at), odd)

    outputs = dict.fromkeys(("gathered", "some", "scattered", "few"), (dtype, count))
    kernel = kernel_of(
        body, {"x": (dtype, count), "order": (I64, count), "order32": (I32, count)}, outputs
    )
    x = np.resize(samples(dtype, 90, 4), count)
    ours, right = both(kernel, machine(cpu=cpu), x=x, order=order, order32=order.astype(np.int32))
    for name in outputs:
        assert same(ours[name], right[name]), name


@pytest.mark.parametrize("dtype", [F32, DType.F64, DType.I8, I32, DType.U64, DType.BOOL])
@pytest.mark.parametrize("primitive", [P.ADD, P.MUL, P.MAX, P.MIN, P.AND, P.XOR])
@pytest.mark.parametrize("threads", [1, 2])
def test_atomic_stores_combine(dtype: DType, primitive: Primitive, threads: int) -> None:
    """Every lane counts, though lanes and threads meet in the same element."""
    from xlac_sdk.kernel_ir.verify import applies

    if not applies(primitive, dtype):
        pytest.skip("not of this type")
    count, lanes, bins = 128, 8, 5

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, count, lanes, kind=LoopKind.PARALLEL) as i:
            at = ramp(i, 1, lanes)
            where = apply(P.REM, at, Const(bins, I64, lanes))
            mask = apply(P.NE, where, Const(2, I64, lanes))
            b.store(buffers["y"], where, load(buffers["x"], at), mask, atomic=primitive)

    kernel = kernel_of(body, {"x": (dtype, count)}, {}, {"y": (dtype, bins)})
    x = np.resize(samples(dtype, 100, 6), count)
    y = np.resize(samples(dtype, 100, 7), bins)
    if dtype.is_float:  # sums that are exact in any order
        x = np.sign(np.nan_to_num(x.astype(np.float64))).astype(dtype.numpy)
        y = np.ones(bins, dtype.numpy)
    ours, right = both(kernel, machine(threads), x=x, y=y)
    assert same(ours["y"], right["y"])


def test_variables_loops_and_branches() -> None:
    """A running sum with a mutable scalar and vector, nested loops with odd steps, an If with both
    sides.
    """

    def body(b, buffers):  # type: ignore[no-untyped-def]
        total, wide = b.variable("total", Const(0.0, F32)), b.variable("wide", Const(0.0, F32, 4))
        with b.loop("i", 2, 50, 7) as i:
            with b.loop("j", i, 40, 3, kind=LoopKind.SERIAL) as j:
                b.assign(total, apply(P.ADD, total, load(buffers["x"], j)))
            with b.block() as then:
                b.assign(wide, apply(P.ADD, wide, load(buffers["x"], ramp(i, 1, 4))))
            with b.block() as otherwise:
                b.assign(wide, apply(P.SUB, wide, load(buffers["x"], ramp(i, 2, 4))))
            b.emit(If(apply(P.LT, i, index(20)), tuple(then), tuple(otherwise)))
            b.store(buffers["y"], i, total)
        b.emit(Store(buffers["w"], index(0), Shuffle((wide,), (3, 2, 1, 0))))

    kernel = kernel_of(body, {"x": (F32, 64)}, {"w": (F32, 4)}, {"y": (F32, 64)})
    ours, right = both(kernel, machine(), x=np.arange(64, dtype="f4"), y=np.zeros(64, "f4"))
    assert same(ours["y"], right["y"]) and same(ours["w"], right["w"])


def test_unrolled_loops_fold_their_indices() -> None:
    """The body is written out: local arrays at constant places become registers."""

    def body(b, buffers):  # type: ignore[no-untyped-def]
        local = b.local("tile", F32, 32)
        with (
            b.loop("i", 0, 4, kind=LoopKind.UNROLLED) as i,
            b.loop("j", 0, 2, kind=LoopKind.UNROLLED) as j,
        ):
            at = add(mul(i, 8), mul(j, 4))
            b.store(
                local,
                ramp(at, 1, 4),
                apply(P.MUL, load(buffers["x"], ramp(at, 1, 4)), Const(2.0, F32)),
            )
        with b.loop("k", 0, 32) as k:
            b.store(buffers["y"], k, load(local, apply(P.SUB, index(31), k)))

    ours, right = both(
        kernel_of(body, {"x": (F32, 32)}, {"y": (F32, 32)}), machine(), x=np.arange(32, dtype="f4")
    )
    assert same(ours["y"], right["y"])


def test_more_stack_than_a_thread_has_is_refused() -> None:
    def body(b, buffers):  # type: ignore[no-untyped-def]
        local = b.local("big", F32, 1 << 21)
        b.store(local, 0, load(buffers["x"], 0))
        b.store(buffers["y"], 0, load(local, 0))

    with pytest.raises(LimitError, match="8388608 bytes of stack"):
        both(kernel_of(body, {"x": (F32, 1)}, {"y": (F32, 1)}), machine(), x=np.zeros(1, "f4"))


def test_shuffles() -> None:
    picks = {"one": (2,), "two": (7, 0, 3, 9, 9, 1), "mixed": (0, 4, 8, 3), "narrow": (1, 5)}

    def body(b, buffers):  # type: ignore[no-untyped-def]
        a, c = load(buffers["x"], ramp(0, 1, 8)), load(buffers["x"], ramp(8, 1, 4))
        s = load(buffers["x"], index(20))
        for name, values in (("one", (a,)), ("two", (a, c)), ("mixed", (a, s)), ("narrow", (c, a))):
            value = Shuffle(values, picks[name])
            b.emit(Store(buffers[name], index(0), value))

    outputs = {n: (F32, len(p)) for n, p in picks.items()}
    ours, right = both(
        kernel_of(body, {"x": (F32, 32)}, outputs), machine(), x=np.arange(32, dtype="f4")
    )
    for name in picks:
        assert same(ours[name], right[name]), name


@pytest.mark.parametrize("by", [1, 2, 3, 7, 8, 1000])
def test_index_division(by: int) -> None:
    """Narrow, unsigned and signed forms of division by a constant."""

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 64, 8) as i:
            at = ramp(i, 1, 8)
            given = load(buffers["x"], at)
            for name, p in (("q", P.DIV), ("r", P.REM)):
                b.store(buffers[name], at, apply(p, given, Const(by, I64)))
                b.store(buffers[name + "i"], at, apply(p, Ramp(mul(i, 37), 5, 8), Const(by, I64)))

    names = ("q", "r", "qi", "ri")
    x = np.concatenate([np.arange(-16, 16), samples(I64, 32, 1)])
    ours, right = both(
        kernel_of(body, {"x": (I64, 64)}, dict.fromkeys(names, (I64, 64))), machine(), x=x
    )
    for name in names:
        assert same(ours[name], right[name]), name


def test_streaming_stores_and_prefetch() -> None:
    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 256, 16) as i:
            b.prefetch(buffers["x"], add(i, 10_000))
            b.store(
                buffers["y"],
                ramp(i, 1, 16),
                load(buffers["x"], ramp(i, 1, 16)),
                align=64,
                streaming=True,
            )

    ours, right = both(
        kernel_of(body, {"x": (F32, 256)}, {"y": (F32, 256)}),
        machine(),
        x=np.arange(256, dtype="f4"),
    )
    assert same(ours["y"], right["y"])


def test_select_and_bool_lanes() -> None:
    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 64, 16) as i:
            at = ramp(i, 1, 16)
            flag = load(buffers["flag"], at)
            b.store(buffers["y"], at, select(flag, load(buffers["x"], at), Const(-1.0, F32)))
            b.store(buffers["not"], at, apply(P.XOR, flag, Const(True, DType.BOOL)))
            b.store(buffers["bits"], at, apply(P.BITCAST, load(buffers["x"], at), dtype=I32))

    outputs = {"y": (F32, 64), "not": (DType.BOOL, 64), "bits": (I32, 64)}
    kernel = kernel_of(body, {"flag": (DType.BOOL, 64), "x": (F32, 64)}, outputs)
    ours, right = both(kernel, machine(), flag=samples(DType.BOOL, 64), x=samples(F32, 64))
    for name in outputs:
        assert same(ours[name], right[name]), name


@pytest.mark.parametrize("seed", range(4))
def test_many_addresses_of_one_statement(seed: int) -> None:
    """Their parts that a loop does not change are added before it, of some of them; neither
    these nor the others are mistaken for each other.
    """
    rng = np.random.default_rng(seed)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 3) as i, b.loop("j", 0, 4) as j, b.loop("k", 0, 5) as k:
            parts = [i, j, apply(P.DIV, add(mul(i, 4), j), index(3)), k, mul(k, 3), add(j, k)]
            total = load(buffers["x"], k)
            for _ in range(12):
                at = index(int(rng.integers(0, 9)))
                for part in rng.choice(len(parts), 3, replace=False):
                    at = add(at, mul(parts[part], int(rng.integers(1, 4))))
                total = apply(P.ADD, mul(total, 3), load(buffers["x"], at))
            b.store(buffers["y"], add(mul(add(mul(i, 4), j), 5), k), total)

    kernel = kernel_of(body, {"x": (I64, 128)}, {"y": (I64, 60)})
    text = BACKEND.emit(program_of(kernel), machine())["program.ll"]
    assert 0 < text.count(" = freeze i64 ") <= addresses.HELD
    ours, right = both(kernel, machine(), x=np.arange(128) ** 2 % 251)
    assert same(ours["y"], right["y"])
