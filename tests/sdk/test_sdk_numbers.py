"""The interpreter's numbers are exact: integers, casts, and functions of floats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir import build, semantics
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel, Load
from xlac_sdk.kernel_ir.primitives import Primitive

P, F32, I32, I64 = Primitive, DType.F32, DType.I32, DType.I64


def evaluate(primitive: Primitive, *operands: object, dtype: DType) -> list[object]:
    with np.errstate(all="ignore"):
        found: list[object] = np.asarray(semantics.evaluate(primitive, operands, dtype)).tolist()
        return found


def test_integers_wrap_and_divide_as_settled() -> None:
    a = np.array([-128, 127, 5, -7, 5], np.int8)
    b = np.array([-1, 1, 0, 2, -2], np.int8)
    assert evaluate(P.ADD, a, b, dtype=DType.I8) == [127, -128, 5, -5, 3]
    assert evaluate(P.DIV, a, b, dtype=DType.I8) == [-128, 127, -1, -3, -2]
    assert evaluate(P.REM, a, b, dtype=DType.I8) == [0, 0, 5, -1, 1]
    assert evaluate(P.DIV, np.uint8([7]), np.uint8([0]), dtype=DType.U8) == [255]


def test_shifts_past_the_width() -> None:
    a, by = np.array([-8, 8, 8], np.int32), np.array([32, 40, -1], np.int32)
    assert evaluate(P.SHR, a, by, dtype=I32) == [-1, 0, 0]
    assert evaluate(P.SHL, a, by, dtype=I32) == [0, 0, 0]


def test_casts_truncate_saturate_and_round_once() -> None:
    x = np.array([1.9, -1.9, 3e9, -3e9, np.nan])
    assert evaluate(P.CAST, x, dtype=I32) == [1, -1, 2**31 - 1, -(2**31), 0]
    # 1 + 2^-8 is a tie between two bf16; a crumb above it must round up, though f32 loses the crumb
    assert evaluate(P.CAST, np.array([1 + 2**-8, 1 + 2**-8 + 2**-40]), dtype=DType.BF16) == [
        1.0,
        1 + 2**-7,
    ]


def test_maximum_keeps_nan_and_orders_zeros() -> None:
    result = semantics.evaluate(
        P.MAX, (np.float32([-0.0, 0.0, np.nan]), np.float32([0.0, -0.0, 1.0])), F32
    )
    assert not np.signbit(result[:2]).any() and np.isnan(result[2])


def test_fused_multiply_add_rounds_once() -> None:
    a, b = np.float64([3.0]), np.float64([1 / 3])
    assert evaluate(P.FMA, a, b, np.float64([-1.0]), dtype=DType.F64) == [-(2.0**-54)]


def nearest(exact: Fraction) -> np.float32:
    """The f32 nearest to a number, of two the even one."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    return min(
        (near, *around), key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) & 1)
    )


@pytest.mark.parametrize("lanes", [1, 4])
def test_fused_multiply_add_of_f32_rounds_once(lanes: int) -> None:
    """Sums just beside the middle of two f32 too, which f64 rounds to that middle."""
    rng = np.random.default_rng(0)
    a = np.ldexp(rng.integers(1 << 23, 1 << 24, 800), -23).astype(np.float32)
    b = np.ldexp(rng.integers(1, 8, 800), rng.integers(-70, 1, 800)).astype(np.float32)
    c = np.ldexp(rng.integers(1 << 23, 1 << 24, 800), -23).astype(np.float32)
    a[::4], b[::4] = 1 + 2**-23, (1 - 2**-23) * 2**-24  # 2**-70 less than half an ulp of c
    a[1::4], b[1::4] = 1, 2**-24  # half an ulp
    for first in range(0, 800, lanes):
        part = slice(first, first + lanes) if lanes > 1 else first
        found = np.atleast_1d(semantics.evaluate(P.FMA, (a[part], b[part], c[part]), F32))
        for lane, value in enumerate(found):
            x, y, z = (Fraction(float(side[first + lane])) for side in (a, b, c))
            assert value == nearest(x * y + z) and value.dtype == np.float32


@pytest.mark.parametrize("primitive", [P.EXP, P.TANH, P.ERF, P.SIN, P.LOG1P])
def test_functions_of_f32_are_correctly_rounded(primitive: Primitive) -> None:
    x = np.random.default_rng(0).uniform(0.01, 3, 500).astype(np.float32)
    exact = np.asarray(semantics.evaluate(primitive, (x.astype(np.float64),), DType.F64))
    assert (np.asarray(semantics.evaluate(primitive, (x,), F32)) == exact.astype(np.float32)).all()


EDGES = {
    True: [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 3e38, 65520.0, 1e-40, 1 + 2**-8, 7e8],
    False: [0, 1, 2, 5, 7, 127, 128, -1, -2, -7, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)],
}


def edges(dtype: DType) -> np.ndarray:
    """Values of a type that operations treat in ways of their own."""
    with np.errstate(all="ignore"):
        if dtype is DType.BOOL:
            return np.array([False, True])
        wide = np.array(EDGES[dtype.is_float], np.float64 if dtype.is_float else np.int64)
        return wide.astype(dtype.numpy)


@pytest.mark.parametrize("lanes", [1, 2])
def test_casts_in_kernels_mean_what_is_settled(lanes: int) -> None:
    for source in DType:
        x = np.repeat(edges(source), lanes)
        for wanted in DType:
            given = Buffer("x", source, len(x))
            found = Buffer("y", wanted, len(x), access=Access.WRITE)
            b = Builder()
            with b.loop("i", 0, len(x), step=lanes) as i:
                value = Load(given, i, lanes)
                b.store(found, i, build.apply(P.CAST, value, dtype=wanted))
            y = np.empty(len(x), wanted.numpy)
            run_kernel(Kernel("k", (given, found), b.body()), {"x": x, "y": y})
            with np.errstate(all="ignore"):
                settled = np.asarray(semantics.cast(x, wanted))
            assert y.tobytes() == settled.tobytes(), f"{source} to {wanted}: {y} for {x}"


@pytest.mark.parametrize("primitive", [P.DIV, P.REM, P.MIN, P.MAX])
def test_integers_of_threads_mean_what_is_settled(primitive: Primitive) -> None:
    for dtype in DType:
        if not dtype.is_integer:
            continue
        one = edges(dtype)
        a, c = (side.reshape(-1) for side in np.meshgrid(one, one))
        left, right = Buffer("a", dtype, len(a)), Buffer("c", dtype, len(a))
        found = Buffer("y", dtype, len(a), access=Access.WRITE)
        b = Builder()
        with b.loop("i", 0, len(a)) as i:
            b.store(found, i, build.apply(primitive, Load(left, i), Load(right, i)))
        y = np.empty(len(a), dtype.numpy)
        run_kernel(Kernel("k", (left, right, found), b.body()), {"a": a, "c": c, "y": y})
        np.testing.assert_array_equal(y, evaluate(primitive, a, c, dtype=dtype), str(dtype))
