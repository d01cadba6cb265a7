"""Transforms, linear systems and batch normalization of StableHLO, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from programs import binary, main, one, results, unary
from test_stablehlo_ops import RNG, typed

from xlac_sdk.source import SourceError


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("length", [[4], [5], [3, 4], [2, 3, 5], [1], [2]])
@pytest.mark.sampled(8)
def test_fourier_transforms(kind: str, length: list[int]) -> None:
    rank, axes = len(length), tuple(range(1, len(length) + 1))
    last = length[-1] // 2 + 1
    full, half = (2, *length), (2, *length[:-1], last)
    shape_in, shape_out = {"RFFT": (full, half), "IRFFT": (half, full)}.get(kind, (full, full))
    takes, gives = (
        ("f32" if kind == "RFFT" else "complex<f32>"),
        ("f32" if kind == "IRFFT" else "complex<f32>"),
    )
    x = RNG.normal(size=shape_in) + (0 if kind == "RFFT" else 1j * RNG.normal(size=shape_in))
    given = (
        f"<{{fft_length = array<i64: {', '.join(map(str, length))}>, "
        f"fft_type = #stablehlo<fft_type {kind}>}}>"
    )
    text = unary(
        "stablehlo.fft", typed(np.empty(shape_in), takes), typed(np.empty(shape_out), gives), given
    )
    array = (
        x.astype(np.float32)
        if kind == "RFFT"
        else np.stack([x.real, x.imag], -1).astype(np.float32)
    )
    found = one(text, array)
    reference = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}.get(kind)
    wanted = reference(x, axes=axes) if reference else np.fft.irfftn(x, length, axes)
    wanted = wanted if kind == "IRFFT" else np.stack([wanted.real, wanted.imag], -1)
    assert rank and np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


def test_linear_systems() -> None:
    a = np.array([[4, 1, 2], [1, 5, 3], [2, 3, 6]], np.float32)
    low = one(
        unary("stablehlo.cholesky", "tensor<3x3xf32>", "tensor<3x3xf32>", "<{lower = true}>"), a
    )
    np.testing.assert_allclose(low, np.linalg.cholesky(a), 1e-5)
    given = (
        "<{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, "
        "unit_diagonal = false}>"
    )
    found = one(
        binary("stablehlo.triangular_solve", "tensor<3x3xf32>", "tensor<3x3xf32>", given), low, a
    )
    np.testing.assert_allclose(low.T @ found, a, 1e-4)


LAPACK = """
module @m {{
  func.func public @main({params}) -> ({results}) {{
    %r{several} = stablehlo.custom_call @{target}({args})
      {{mhlo.backend_config = {{{options}}}}} : ({takes}) -> {gives}
    return {returned} : {results}
  }}
}}
"""


@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_as_jax_calls_it(lower: bool) -> None:
    """The other triangle is not read; the report names the first row that is not positive."""
    a = np.array([[4, 1, 2], [1, 5, 3], [2, 3, 6]], np.float64)
    wrong = a.copy()
    wrong[1, 1] = -1.0
    given = np.stack([np.tril(a) if lower else np.triu(a), wrong])
    type, report = "tensor<2x3x3xf64>", "tensor<2xi32>"
    text = LAPACK.format(
        params=f"%a: {type}",
        results=f"{type}, {report}",
        several=":2",
        target="lapack_dpotrf_ffi",
        args="%a",
        options=f"uplo = {76 if lower else 85} : ui8",
        takes=type,
        gives=f"({type}, {report})",
        returned="%r#0, %r#1",
    )
    factor, told = results(text, given)
    expected = np.linalg.cholesky(a)
    np.testing.assert_allclose(factor[0], expected if lower else expected.T, 1e-14)
    assert told.tolist() == [0, 2]


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_lu_as_jax_calls_it(shape: tuple[int, int]) -> None:
    """Pivots count from 1, and the report names the first column without one."""
    a = RNG.normal(size=shape)
    given = np.stack([a, a])
    given[1, :, 1] = 0.0
    rows, columns = shape
    type = f"tensor<2x{rows}x{columns}xf64>"
    pivots, report = f"tensor<2x{min(shape)}xi32>", "tensor<2xi32>"
    text = LAPACK.format(
        params=f"%a: {type}",
        results=f"{type}, {pivots}, {report}",
        several=":3",
        target="lapack_dgetrf_ffi",
        args="%a",
        options="",
        takes=type,
        gives=f"({type}, {pivots}, {report})",
        returned="%r#0, %r#1, %r#2",
    )
    packed, places, told = results(text, given)
    count = min(shape)
    for x, factors, exchanges in zip(given, packed, places, strict=True):
        made = (np.tril(factors[:, :count], -1) + np.eye(rows, count)) @ np.triu(factors[:count])
        for k, row in enumerate(exchanges - 1):
            x[[k, row]] = x[[row, k]]
        np.testing.assert_allclose(made, x, 1e-14, 1e-14)
    assert told.tolist() == [0, 2]


@pytest.mark.parametrize("options", ["LLNN", "LUTU", "RLTN", "RUCU", "LUNN", "RLNU"])
def test_triangular_solve_as_jax_calls_it(options: str) -> None:
    side, part, form, diagonal = options
    a, b = RNG.normal(size=(3, 3)) + 4 * np.eye(3), RNG.normal(size=(3, 3))
    type = "tensor<3x3xf64>"
    names = zip(("side", "uplo", "trans_x", "diag"), options, strict=True)
    text = LAPACK.format(
        params=f"%a: {type}, %b: {type}",
        results=type,
        several="",
        target="lapack_dtrsm_ffi",
        args="%a, %b",
        options=", ".join(f"{n} = {ord(x)} : ui8" for n, x in names),
        takes=f"{type}, {type}",
        gives=type,
        returned="%r",
    )
    found = one(text, a, b)
    matrix = np.tril(a) if part == "L" else np.triu(a)
    if diagonal == "U":
        np.fill_diagonal(matrix, 1.0)
    matrix = matrix if form == "N" else matrix.T
    made = matrix @ found if side == "L" else found @ matrix
    np.testing.assert_allclose(made, b, 1e-12, 1e-12)
    with pytest.raises(SourceError, match="side is one of L, R"):
        one(text.replace(f"side = {ord(side)}", "side = 90"), a, b)


def test_batch_normalisation() -> None:
    x, scale, offset = (
        RNG.normal(size=(4, 3)).astype(np.float32),
        np.array([1, 2, 3], np.float32),
        np.array([0, 1, -1], np.float32),
    )
    given = "<{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}>"
    v, m = "tensor<3xf32>", "tensor<4x3xf32>"
    text = main(
        [m, v, v],
        [m, v, v],
        f'    %0:3 = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) {given} : ({m}, '
        f"{v}, {v}) -> ({m}, {v}, {v})\n    return %0#0, %0#1, %0#2 : {m}, {v}, {v}",
    )
    y, mean, variance = results(text, x, scale, offset)
    np.testing.assert_allclose(mean, x.mean(0), 1e-5, 1e-6)
    np.testing.assert_allclose(variance, x.var(0), 1e-5)
    wanted = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3) * scale + offset
    np.testing.assert_allclose(y, wanted, 1e-4, 1e-5)
    text = main(
        [m, v, v, v, v],
        [m],
        '    %0 = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg2, %arg3, '
        f"%arg4) {given} : ({m}, {v}, {v}, {v}, {v}) -> {m}\n    return %0 : {m}",
    )
    np.testing.assert_allclose(one(text, x, scale, offset, mean, variance), wanted, 1e-4, 1e-5)
    text = main(
        [m, v, v, v, m],
        [m, v, v],
        '    %0:3 = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg2, %arg3, '
        f"%arg4) {given} : ({m}, {v}, {v}, {v}, {m}) -> ({m}, {v}, {v})\n    return %0#0, "
        f"%0#1, %0#2 : {m}, {v}, {v}",
    )
    grad = RNG.normal(size=(4, 3)).astype(np.float32)
    _, by_scale, by_offset = results(text, x, scale, mean, variance, grad)
    normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-3)
    np.testing.assert_allclose(by_scale, (grad * normal).sum(0), 1e-4, 1e-5)
    np.testing.assert_allclose(by_offset, grad.sum(0), 1e-5, 1e-6)
