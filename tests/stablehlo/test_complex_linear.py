"""LAPACK's functions of complex matrices as JAX calls them, by residuals, without JAX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from programs import results

from xlac.api import compile
from xlac.frontends.stablehlo import load
from xlac.ir.interpret import interpret
from xlac.ops.complex.linalg import systems
from xlac_sdk.source import SourceError

RNG = np.random.default_rng(9)
Shape = tuple[int, ...]


def program(target: str, options: dict[str, str], takes: list[Any], gives: list[str]) -> str:
    """A call of one function; `gives` has `complex` for complex<f64>."""

    def typed(shape: Shape) -> str:
        return f"tensor<{''.join(f'{n}x' for n in shape)}complex<f64>>"

    types = [typed(x.shape) for x in takes]
    given = ", ".join(f"%a{n}: {t}" for n, t in enumerate(types))
    names = ", ".join(f"%a{n}" for n in range(len(takes)))
    returned = ", ".join(f"%r#{n}" for n in range(len(gives)))
    listed = ", ".join(f"{k} = {ord(v)} : ui8" for k, v in options.items())
    results = ", ".join(g.replace("complex", "complex<f64>") for g in gives)
    return f"""
module @m {{
  func.func public @main({given}) -> ({results}) {{
    %r:{len(gives)} = stablehlo.custom_call @lapack_z{target}_ffi({names})
      {{mhlo.backend_config = {{{listed}}}}} : ({", ".join(types)}) -> ({results})
    return {returned} : {results}
  }}
}}
"""


def parts(x: Any) -> Any:
    """Complex numbers with a trailing axis of 2."""
    return np.stack([x.real, x.imag], -1)


def joined(found: Any, gives: list[str]) -> list[Any]:
    """Results, complex ones as NumPy's."""
    return [
        f[..., 0] + 1j * f[..., 1] if "complex" in g else f
        for f, g in zip(map(np.asarray, found), gives, strict=True)
    ]


def called(target: str, options: dict[str, str], takes: list[Any], gives: list[str]) -> list[Any]:
    """The results of a call, compiled, which are also the interpreter's."""
    return joined(results(program(target, options, takes, gives), *map(parts, takes)), gives)


def of_both(
    target: str, options: dict[str, str], takes: list[Any], gives: list[str]
) -> Iterator[list[Any]]:
    """The results of a call, compiled, then those of the interpreter, whose signs may differ."""
    model = load(program(target, options, takes, gives))
    yield joined(compile(model, target="cpu")(*map(parts, takes)).values(), gives)
    names = [node.op.name for node in model.inputs]  # type: ignore[attr-defined]
    given = dict(zip(names, map(parts, takes), strict=True))
    yield joined(interpret(model.graph, given).values(), gives)


def random(*shape: int) -> Any:
    """Complex numbers."""
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def turned(x: Any) -> Any:
    """The adjoint."""
    return x.conj().swapaxes(-1, -2)


def near(found: Any, wanted: Any) -> None:
    """Equal to 1e-12."""
    np.testing.assert_allclose(found, wanted, 0, 1e-12)


@pytest.mark.parametrize("letter", ["L", "U"])
@pytest.mark.sampled(4)
def test_cholesky_reads_one_triangle(letter: str) -> None:
    a = random(2, 4, 4)
    a = a @ turned(a) + np.eye(4)
    expected = np.linalg.cholesky(a)
    given = np.tril(a) if letter == "L" else np.triu(a)
    given[1, 1, 1] = -1
    factor, told = called(
        "potrf", {"uplo": letter}, [given], ["tensor<2x4x4xcomplex>", "tensor<2xi32>"]
    )
    near(factor[0], expected[0] if letter == "L" else turned(expected[0]))
    assert told.tolist() == [0, 2]


@pytest.mark.parametrize("options", ["LLNN", "LUTU", "RLTN", "RUCU", "LLCN", "RUNN"])
@pytest.mark.sampled(6)
def test_triangular_solve(options: str) -> None:
    side, part, form, diagonal = options
    a, b = random(2, 3, 3) + 4 * np.eye(3), random(2, 3, 3)
    names = dict(zip(("side", "uplo", "trans_x", "diag"), options, strict=True))
    (found,) = called("trsm", names, [a, b], ["tensor<2x3x3xcomplex>"])
    matrix = np.tril(a) if part == "L" else np.triu(a)
    if diagonal == "U":
        matrix[..., range(3), range(3)] = 1.0
    matrix = {"N": matrix, "T": matrix.swapaxes(-1, -2), "C": turned(matrix)}[form]
    near(matrix @ found if side == "L" else found @ matrix, b)


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (5, 4)])
@pytest.mark.sampled(4)
def test_lu(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """By columns, and for five rows by blocks of two columns."""
    if shape == (5, 4):
        monkeypatch.setattr(systems, "COLUMNS", 2)
    a = random(2, *shape)
    a[1, :, 1] = 0.0
    rows, columns = shape
    count = min(shape)
    packed, pivots, told = called(
        "getrf",
        {},
        [a],
        [f"tensor<2x{rows}x{columns}xcomplex>", f"tensor<2x{count}xi32>", "tensor<2xi32>"],
    )
    for x, factors, exchanges in zip(a, packed, pivots, strict=True):
        made = (np.tril(factors[:, :count], -1) + np.eye(rows, count)) @ np.triu(factors[:count])
        for k, row in enumerate(exchanges - 1):
            x[[k, row]] = x[[row, k]]
        near(made, x)
    assert told.tolist() == [0, 2]


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (1, 1), (4, 2)])
@pytest.mark.sampled(4)
def test_qr(shape: Shape) -> None:
    a = random(2, *shape)
    a[1, 1:] = 0.0
    rows, columns = shape
    whole = f"tensor<2x{rows}x{columns}xcomplex>"
    packed, taus = called("geqrf", {}, [a], [whole, f"tensor<2x{columns}xcomplex>"])
    (q,) = called("ungqr", {}, [packed, taus], [whole])
    near(turned(q) @ q, np.broadcast_to(np.eye(columns), (2, columns, columns)))
    near(q @ np.triu(packed[:, :columns]), a)
    assert np.all(np.diagonal(packed, 0, 1, 2).imag == 0)


@pytest.mark.parametrize("letter", ["L", "U"])
@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.sampled(6)
def test_eigenvalues(letter: str, size: int) -> None:
    a = random(2, size, size)
    a = a + turned(a)
    a[1] = np.eye(size)  # equal values
    whole = f"tensor<2x{size}x{size}xcomplex>"
    given = np.tril(a) if letter == "L" else np.triu(a)
    gives = [whole, f"tensor<2x{size}xf64>", "tensor<2xi32>"]
    for v, w, told in of_both("heevd", {"mode": "V", "uplo": letter}, [given], gives):
        near(a @ v, v * w[:, None, :])
        near(turned(v) @ v, np.broadcast_to(np.eye(size), a.shape))
        near(w, np.linalg.eigvalsh(a))
        assert not told.any()


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (1, 1)])
@pytest.mark.parametrize("mode", ["A", "S"])
@pytest.mark.sampled(8)
def test_singular_values(shape: Shape, mode: str) -> None:
    a, (m, n), k = random(2, *shape), shape, min(shape)
    left, right = (m, n) if mode == "A" else (k, k)
    gives = [
        f"tensor<2x{m}x{n}xcomplex>",
        f"tensor<2x{k}xf64>",
        f"tensor<2x{m}x{left}xcomplex>",
        f"tensor<2x{right}x{n}xcomplex>",
        "tensor<2xi32>",
    ]
    for _, s, u, v, told in of_both("gesdd", {"mode": mode}, [a], gives):
        near((u[..., :k] * s[:, None, :]) @ v[:, :k], a)
        near(turned(u) @ u, np.broadcast_to(np.eye(left), (2, left, left)))
        near(v @ turned(v), np.broadcast_to(np.eye(right), (2, right, right)))
        near(s, np.linalg.svd(a, compute_uv=False))
        assert not told.any()


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("square", [True, False])
@pytest.mark.sampled(4)
def test_singular_values_without_vectors(shape: Shape, square: bool) -> None:
    """The text states sizes of either kind for vectors, which are not computed."""
    a, (m, n), k = random(2, *shape), shape, min(shape)
    left, right = (m, n) if square else (k, k)
    gives = [
        f"tensor<2x{m}x{n}xcomplex>",
        f"tensor<2x{k}xf64>",
        f"tensor<2x{m}x{left}xcomplex>",
        f"tensor<2x{right}x{n}xcomplex>",
        "tensor<2xi32>",
    ]
    for _, s, u, v, told in of_both("gesdd", {"mode": "N"}, [a], gives):
        near(s, np.linalg.svd(a, compute_uv=False))
        assert u.shape == (2, m, left) and v.shape == (2, right, n)
        assert not u.any() and not v.any() and not told.any()


def test_real_matrices_are_refused() -> None:
    text = """
module @m {
  func.func public @main(%a: tensor<2x2xf64>) -> tensor<2x2xf64> {
    %r:2 = stablehlo.custom_call @lapack_zgeqrf_ffi(%a)
      : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>)
    return %r#0 : tensor<2x2xf64>
  }
}
"""
    with pytest.raises(SourceError, match="operand 0 is not complex"):
        results(text, np.eye(2))
