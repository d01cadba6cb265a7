"""Every primitive, element type and lane count against the interpreter, on this CPU and on a lesser
one.
"""

from __future__ import annotations

import numpy as np
import pytest
from cpu_programs import both, kernel_of, machine, same, samples
from processors import needs_processor

from xlac_sdk.conformance.values import arguments
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import apply, fold, load, mul, ramp
from xlac_sdk.kernel_ir.kernel import Const, Kernel, LoopKind
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL, Primitive
from xlac_sdk.kernel_ir.semantics import FOLDABLE
from xlac_sdk.kernel_ir.verify import applies

P = Primitive
COUNT = 192
LANES = (1, 3, 4, 16)
EXACT = [
    p
    for p in Primitive
    if p not in TRANSCENDENTAL and p not in (P.CAST, P.BITCAST, P.SELECT, P.LDEXP, P.DOT4, P.LOOKUP)
]


def everything(dtype: DType, lanes: int) -> tuple[Kernel, dict[str, DType]]:
    """One kernel that applies every exact primitive to three inputs, with an output for each."""
    chosen = [p for p in EXACT if applies(p, dtype)]
    kinds = {p.value: DType.BOOL if p.is_comparison else dtype for p in chosen}

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, COUNT, lanes) as i:
            at = ramp(i, 1, lanes)
            given = [load(buffers[n], at) for n in "abc"]
            for p in chosen:
                b.store(buffers[p.value], at, apply(p, *given[: p.arity]))

    reads = dict.fromkeys("abc", (dtype, COUNT))
    return kernel_of(body, reads, {n: (kind, COUNT) for n, kind in kinds.items()}), kinds


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [d for d in DType if not d.is_half])
@pytest.mark.sampled(4)
def test_every_exact_primitive_agrees(dtype: DType, cpu: str) -> None:
    needs_processor(cpu)
    arrays = {n: samples(dtype, COUNT, seed) for n, seed in zip("abc", (1, 2, 3), strict=True)}
    if dtype.is_integer:
        arrays["b"][::3] = samples(dtype, COUNT)[::3] & 63
        arrays["a"][:4], arrays["b"][:4] = (
            np.iinfo(dtype.numpy).min,
            np.array([-1, 0, 1, 2]).astype(dtype.numpy),
        )
    if dtype.is_float:
        arrays["b"][::5] = -arrays["a"][::5]  # ties, zeros of both signs among them
    for lanes in LANES if not cpu else (1, 8):
        kernel, kinds = everything(dtype, lanes)
        ours, right = both(kernel, machine(cpu=cpu), **arrays)
        for name in kinds:
            assert same(ours[name], right[name]), (
                name,
                dtype,
                lanes,
                cpu,
                _where(ours[name], right[name], arrays),
            )


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("lanes", (*LANES, 64))
@pytest.mark.parametrize("cpu", ["", "x86-64-v4", "x86-64-v3"])
@pytest.mark.sampled(8)
def test_scaling_by_powers_of_two_is_exact(dtype: DType, lanes: int, cpu: str, x86: bool) -> None:
    """By an instruction where the machine has one, else by three products."""
    needs_processor(cpu)
    values, exponents = arguments(P.LDEXP, (dtype, dtype), COUNT)
    count = len(values)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, count, lanes) as i:
            at = ramp(i, 1, lanes)
            b.store(
                buffers["y"], at, apply(P.LDEXP, load(buffers["x"], at), load(buffers["n"], at))
            )

    target = machine(cpu=cpu)
    assert (P.LDEXP in target.primitives) == target.masked or not x86
    kernel = kernel_of(body, {"x": (dtype, count), "n": (dtype, count)}, {"y": (dtype, count)})
    ours, right = both(kernel, target, x=values, n=exponents)
    assert same(ours["y"], right["y"])


def _where(ours, right, arrays):  # type: ignore[no-untyped-def]
    i = next(i for i in range(len(ours)) if not same(ours[i : i + 1], right[i : i + 1]))
    return {**{n: a[i] for n, a in arrays.items()}, "ours": ours[i], "right": right[i]}


@pytest.mark.parametrize("cpu", ["", "x86-64"])
@pytest.mark.parametrize("source", list(DType))
@pytest.mark.sampled(4)
def test_every_cast_agrees(source: DType, cpu: str) -> None:
    needs_processor(cpu)
    array = samples(source, COUNT)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        for lanes in (1, 16):
            with b.loop("i", 0, COUNT, lanes) as i:
                at = ramp(i, 1, lanes)
                for target in DType:
                    value = apply(P.CAST, load(buffers["a"], at), dtype=target)
                    b.store(buffers[f"{target}_{lanes}"], at, value)

    writes = {f"{target}_{lanes}": (target, COUNT) for target in DType for lanes in (1, 16)}
    ours, right = both(kernel_of(body, {"a": (source, COUNT)}, writes), machine(cpu=cpu), a=array)
    for name in writes:
        assert same(ours[name], right[name]), (
            source,
            name,
            _where(ours[name], right[name], {"a": array}),
        )


@pytest.mark.parametrize("half", [DType.F16, DType.BF16])
def test_half_bits_survive_and_round(half: DType) -> None:
    """All 65,536 halves to f32 and back, and f32 around every rounding boundary."""
    every = np.arange(65536, dtype=np.uint16)
    count = len(every)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, count, 16) as i:
            at = ramp(i, 1, 16)
            value = apply(P.CAST, load(buffers["a"], at), dtype=DType.F32)
            b.store(buffers["wide"], at, value)
            b.store(buffers["back"], at, apply(P.CAST, load(buffers["b"], at), dtype=half))

    kernel = kernel_of(
        body,
        {"a": (half, count), "b": (DType.F32, count)},
        {"wide": (DType.F32, count), "back": (half, count)},
    )
    base = every.view(half.numpy).astype(np.float32).view(np.uint32)
    near = (
        (base + np.random.default_rng(1).integers(-2, 3, count) * 0x800)
        .astype(np.uint32)
        .view(np.float32)
    )
    for cpu in ("", "x86-64") if machine().facts.count("x86_64") else ("",):
        ours, right = both(kernel, machine(cpu=cpu), a=every.view(half.numpy), b=near)
        assert same(ours["wide"], right["wide"])
        nan = np.isnan(near)
        assert np.isnan(ours["back"][nan].astype(np.float32)).all()
        assert np.array_equal(
            ours["back"][~nan].view(np.uint16), right["back"][~nan].view(np.uint16)
        )


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("lanes", [2, 3, 7, 16])
@pytest.mark.sampled(12)
def test_folds_agree(dtype: DType, lanes: int) -> None:
    chosen = [p for p in FOLDABLE if applies(p, dtype)]
    if not chosen:
        pytest.skip("nothing folds halves")
    array = samples(dtype, lanes * 8, seed=5)
    if dtype.is_float:
        array = np.where(np.isfinite(array), array, array.dtype.type(2)).clip(-50, 50)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 8) as i:
            row = load(buffers["a"], ramp(mul(i, lanes), 1, lanes))
            for p in chosen:
                b.store(buffers[p.value], i, fold(p, row))

    ours, right = both(
        kernel_of(body, {"a": (dtype, lanes * 8)}, {p.value: (dtype, 8) for p in chosen}),
        machine(),
        a=array,
    )
    for p in chosen:
        if dtype.is_float and p in (P.ADD, P.MUL):
            scale = (
                np.add.reduce(np.abs(array.reshape(8, lanes)), 1)
                if p is P.ADD
                else np.abs(right[p.value])
            )
            assert (
                np.abs(ours[p.value] - right[p.value]) <= 4 * np.finfo(dtype.numpy).eps * scale
            ).all(), p
        else:
            assert same(ours[p.value], right[p.value]), (p, dtype, lanes)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("cpu", ["", "x86-64-v3", "x86-64"])
@pytest.mark.sampled(8)
def test_extremes_of_lanes_keep_nan_and_signs_of_zeros(
    dtype: DType, lanes: int, cpu: str, x86: bool
) -> None:
    """Rows of few special values, so that zeros of both signs and NaN of both signs often meet."""
    if cpu and not x86:
        pytest.skip("an x86 processor")
    needs_processor(cpu)
    rows, limits = 192, np.finfo(dtype.numpy)
    few = [0, 1, limits.smallest_subnormal, limits.max, np.inf]
    values, rng = np.array([*few, *np.negative(few)], dtype.numpy), np.random.default_rng(lanes)
    array = np.stack([rng.choice(rng.choice(values, 3), lanes) for _ in range(rows)])
    array[::4, rng.integers(lanes)] = np.copysign(np.nan, 1)
    array[1::8, rng.integers(lanes)] = np.copysign(np.nan, -1)
    array[2::8] = np.copysign(np.nan, -1)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, rows) as i:
            row = load(buffers["a"], ramp(mul(i, lanes), 1, lanes))
            for p in (P.MAX, P.MIN):
                b.store(buffers[p.value], i, fold(p, row))

    results = {p.value: (dtype, rows) for p in (P.MAX, P.MIN)}
    kernel = kernel_of(body, {"a": (dtype, rows * lanes)}, results)
    ours, right = both(kernel, machine(cpu=cpu), a=array.ravel())
    for name in results:
        assert same(ours[name], right[name]), name
        whole = ~np.isnan(right[name])
        assert (np.signbit(ours[name]) == np.signbit(right[name]))[whole].all(), name


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("primitive", [P.MAX, P.MIN])
@pytest.mark.parametrize(
    "constant", [0.0, -0.0, 1.0, -3.0, float("inf"), float("-inf"), float("nan")]
)
def test_max_and_min_with_a_constant(primitive: Primitive, dtype: DType, constant: float) -> None:
    """The shorter code for constants keeps NaN and the signs of zeros."""
    array = samples(dtype, 48)

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 48, 16) as i:
            at, c = ramp(i, 1, 16), Const(constant, dtype)
            b.store(buffers["left"], at, apply(primitive, c, load(buffers["a"], at)))
            b.store(buffers["right"], at, apply(primitive, load(buffers["a"], at), c))

    ours, right = both(
        kernel_of(body, {"a": (dtype, 48)}, dict.fromkeys(("left", "right"), (dtype, 48))),
        machine(),
        a=array,
    )
    assert same(ours["left"], right["left"]) and same(ours["right"], right["right"])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_functions_are_close(dtype: DType) -> None:
    """The SDK's expansions as this backend compiles them; their own bounds are the SDK's tests."""
    array = np.concatenate(
        [np.linspace(-12, 12, 176), [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 88.0]]
    ).astype(dtype.numpy)
    array = np.resize(array, COUNT)
    other = np.resize(np.array([0.5, 2.0, -1.0, 3.0, 0.0], dtype.numpy), COUNT)
    chosen = [p for p in TRANSCENDENTAL if applies(p, dtype)]

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, COUNT, 16) as i:
            at = ramp(i, 1, 16)
            given = [load(buffers[n], at) for n in "ab"]
            for p in chosen:
                b.store(buffers[p.value], at, apply(p, *given[: p.arity]))

    kernel = kernel_of(
        body, {"a": (dtype, COUNT), "b": (dtype, COUNT)}, {p.value: (dtype, COUNT) for p in chosen}
    )
    ours, right = both(kernel, machine(), a=array, b=other)
    for p in chosen:
        x, y = ours[p.value], right[p.value]
        odd = ~np.isfinite(y)
        assert np.array_equal(x[odd], y[odd], equal_nan=True), p
        assert (np.abs(x[~odd] - y[~odd]) <= 4 * np.abs(np.spacing(y[~odd]))).all(), p


def test_a_parallel_loop_of_primitives_is_the_same(x86: bool) -> None:
    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, 1000, 8, kind=LoopKind.PARALLEL, grain=4) as i:
            at = ramp(i, 1, 8)
            b.store(buffers["y"], at, apply(P.MUL, load(buffers["a"], at), load(buffers["a"], at)))

    array = samples(DType.F32, 1000, 3)
    array = np.resize(array, 1000)
    kernel = kernel_of(body, {"a": (DType.F32, 1000)}, {"y": (DType.F32, 1000)})
    for threads in (1, 2, 3, 4):
        ours, right = both(kernel, machine(threads), a=array)
        assert same(ours["y"], right["y"])
