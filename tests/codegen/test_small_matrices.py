"""Kernels of small matrices: every width of vectors, sizes that fill none, and special numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, compute, group, param, values

import xlac
from xlac.codegen.cpu.matrix.takes import PANEL, SIZE, takes
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.linalg.cholesky import Cholesky
from xlac.ops.linalg.lu import Lu
from xlac.ops.linalg.matrices import on_diagonal
from xlac.ops.linalg.triangular_solve import TriangularSolve
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import Launch, Repeat, walk
from xlac_sdk.target import Request

WIDTHS = ("avx512", "avx2", "sse", "scalar", "wide")
NAN = float("nan")


def dominant(shape: tuple[int, ...], dtype: DType) -> Node:
    """Matrices with a large diagonal, computed as they are read."""
    small = build.mul(param("a", Type(dtype, shape)), 0.25)
    return build.select(on_diagonal(shape), 1.0 + shape[-1], small)


def factors_of(a: Node) -> Group:
    made = Node.of(Lu(), a)
    picks = [Node(Pick(index=n), (made,), t) for n, t in enumerate(made.results)]
    return group(Kind.MATRIX, made, *picks)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (5, 5), (2, 8, 8), (17, 17), (3, 20), (21, 4), (16, 16), (2, 0, 3, 3)]
)
@pytest.mark.sampled(15)
def test_lu(shape: tuple[int, ...], width: str) -> None:
    if 0 not in shape:
        agree(factors_of(param("x", Type(DType.F64, shape))), TARGETS[width])
    agree(factors_of(param("x", Type(DType.F32, shape))), TARGETS[width], seed=1)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 8, 8), (18, 18), (2, 1, 5, 5)])
@pytest.mark.sampled(10)
def test_cholesky(shape: tuple[int, ...], width: str) -> None:
    for dtype in (DType.F32, DType.F64):
        agree(group(Kind.MATRIX, Node.of(Cholesky(), dominant(shape, dtype))), TARGETS[width])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", [1, 3, 8, 37, 70])
@pytest.mark.parametrize("size", [1, 4, 6, 9])
@pytest.mark.sampled(20)
def test_triangular_systems(size: int, columns: int, width: str) -> None:
    a = dominant((2, size, size), DType.F32)
    b = param("b", Type(DType.F32, (2, size, columns)))
    for lower_, unit in ((True, False), (False, True)):
        op = TriangularSolve(lower=lower_, unit=unit)
        agree(group(Kind.MATRIX, Node.of(op, a, b)), TARGETS[width])


def test_results_that_nothing_reads() -> None:
    """The factors alone, the order alone: the same as together."""
    made = Node.of(Lu(), param("x", Type(DType.F32, (2, 9, 9))))
    picks = [Node(Pick(index=n), (made,), t) for n, t in enumerate(made.results)]
    whole = group(Kind.MATRIX, made, *picks)
    given = values(whole)
    wanted = compute(whole, TARGETS["avx2"], given)
    for pick, want in zip(picks, wanted, strict=True):
        (found,) = compute(group(Kind.MATRIX, made, pick), TARGETS["avx2"], given)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("rows", [900, 40])
def test_memory_beside_a_small_cache(rows: int) -> None:
    """A matrix whose rows are no whole vectors, and its columns, are in the arena if too large."""
    target = TARGETS["avx512"].with_facts(l1_bytes=1 << 10)
    agree(factors_of(param("x", Type(DType.F32, (2, rows, 3)))), target)


# ---- special numbers -----------------------------------------------------------------------------


def special() -> list[Array]:
    """Matrices of 20 rows: zeros, a column of zeros, equal rows, NaN and infinities in places."""
    rng = np.random.default_rng(5)
    plain = rng.normal(size=(20, 20))
    found = [np.zeros((20, 20)), np.ones((20, 20))]
    for at, value in (((4, 4), NAN), ((17, 2), NAN), ((3, 19), np.inf), ((0, 0), -np.inf)):
        found.append(plain.copy())
        found[-1][at] = value
    found.append(plain.copy())
    found[-1][:, 7] = 0.0
    found.append(np.tril(plain, -1))
    return found


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_special_numbers(target: str) -> None:
    """Pivots, NaN and infinities are where the meaning has them."""
    a = np.stack(special())
    model = xlac.jit(lambda a: xlac.lu(a), target=target)
    with np.errstate(all="ignore"):
        wanted = Lu().evaluate(a)
    for found, want in zip(model(a), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_what_is_not_read_does_not_matter(target: str) -> None:
    """NaN in the other triangle, and on a diagonal that is taken as 1."""
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(20, 20)), rng.normal(size=(20, 7))
    positive = a @ a.T + np.eye(20)
    above = np.triu(np.full((20, 20), NAN), 1)

    @xlac.jit(target=target)
    def f(positive: Array, low: Array, unit: Array, up: Array, b: Array) -> object:
        return (
            xlac.cholesky(positive),
            xlac.triangular_solve(low, b),
            xlac.triangular_solve(unit, b, unit=True),
            xlac.triangular_solve(up, b, lower=False),
        )

    low = np.tril(a) / 20 + np.eye(20)
    ones = np.tril(low, -1) + np.eye(20)
    factor, *solved = f(
        positive + above, low + above, ones + above + np.diag(np.full(20, NAN)), low.T + above.T, b
    )
    np.testing.assert_allclose(factor, np.linalg.cholesky(positive), rtol=1e-9, atol=1e-12)
    for x, matrix in zip(solved, (low, ones, low.T), strict=True):
        np.testing.assert_allclose(matrix @ x, b, rtol=1e-9, atol=1e-9)


def test_matrices_that_are_not_positive() -> None:
    a = np.stack([np.diag([1.0, -1.0, 2.0]), np.zeros((3, 3))])
    found = xlac.jit(lambda a: xlac.cholesky(a))(a)
    assert found[0, 0, 0] == 1 and np.isnan(found[0, 1, 1]) and np.isnan(found[1, 0, 0])
    assert (np.triu(found, 1) == 0).all()


# ---- whole models --------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_batches_of_open_size(tmp_path: Path, threads: int) -> None:
    """Many matrices are shared by threads; columns too may be open."""
    file = tmp_path / "small.yaml"
    file.write_text(
        """
xlac: 1
model: small
dims: {k: {min: 1, max: 512}, m: {min: 1, max: 64}}
inputs: {a: "f64[k, 12, 12]", b: "f64[k, 12, m]"}
graph:
  low: {op: cholesky, in: [a]}
  x: {op: triangular_solve, in: [low, b]}
  "packed, pivots, order": {op: lu, in: [a]}
outputs: [low, x, packed, order]
"""
    )
    model = xlac.compile(file, threads=threads)
    rng = np.random.default_rng(7)
    for count, columns in ((1, 1), (300, 19)):
        half = rng.normal(size=(count, 12, 12))
        a, b = half @ half.swapaxes(1, 2) + np.eye(12), rng.normal(size=(count, 12, columns))
        found = model(a=a, b=b)
        np.testing.assert_allclose(found["low"], np.linalg.cholesky(a), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found["low"] @ found["x"], b, rtol=1e-7, atol=1e-7)
        left, right = np.tril(found["packed"], -1) + np.eye(12), np.triu(found["packed"])
        rows = np.take_along_axis(a, found["order"][..., None].astype(np.int64), 1)
        np.testing.assert_allclose(left @ right, rows, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_small_matrices_take_one_kernel(tmp_path: Path, target: str) -> None:
    """And larger ones, where kernels have vectors, no loops outside kernels."""
    for size, most in ((SIZE, 1), (2 * SIZE, 30 if target == "cpu" else 1000)):
        for name in ("lu", "cholesky"):
            results = "p, q, r" if name == "lu" else "p"
            file = tmp_path / f"{name}_{size}.yaml"
            file.write_text(
                f"""
xlac: 1
model: one
inputs: {{a: "f32[{size}, {size}]"}}
graph: {{"{results}": {{op: {name}, in: [a]}}}}
outputs: [{results}]
"""
            )
            program = lower(load(file), find(target).target(Request())).program
            steps = list(walk(program.steps))
            assert not any(isinstance(step, Repeat) for step in steps)
            assert sum(isinstance(step, Launch) for step in steps) <= most, name


def test_systems_are_left_to_c_compilers() -> None:
    """They vectorize the loops of the expansion, along rows."""
    a, b = (param(name, Type(DType.F32, (8, 8))) for name in "ab")
    node = Node.of(TriangularSolve(), a, b)
    assert not takes(node, find("c").target(Request()))
    assert takes(node, TARGETS["sse"]) and takes(Node.of(Lu(), a), find("c").target(Request()))


def test_panels_of_any_height_are_one_kernel() -> None:
    a = np.random.default_rng(8).normal(size=(700, PANEL)).astype(np.float32)
    packed, _, order = xlac.jit(lambda a: xlac.lu(a))(a)
    left, right = np.tril(packed, -1) + np.eye(700, PANEL), np.triu(packed[:PANEL])
    np.testing.assert_allclose(left @ right, a[order], rtol=1e-3, atol=1e-5)
