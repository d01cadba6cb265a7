"""Decompositions and solvers of PyTorch: values and gradients beside eager mode's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import xlac

torch = pytest.importorskip("torch")

linalg = torch.linalg


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic
    torch.manual_seed(0)


def normal(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


def agree(function: Callable[..., Any], *values: Any) -> None:
    """Values and gradients of a compiled function beside eager's, to 1e-12."""
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    results = []
    for called in (compiled, function):
        leaves = [value.detach().clone().requires_grad_() for value in values]
        result = called(*leaves)
        results.append((result, *torch.autograd.grad(result.square().sum(), leaves)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)


# the derivatives of determinants read factors of the matrix, or of its transpose where it lies in
# row-major order: both orders are tried
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(
    "function",
    [linalg.det, lambda a: linalg.slogdet(a)[1], lambda a: linalg.solve(a, a.sin())],
    ids=["det", "slogdet", "solve"],
)
def test_derivatives_that_read_factors(function: Callable[..., Any], turned: bool) -> None:
    value = normal(2, 3, 3)
    agree((lambda a: function(a.mT)) if turned else function, value)


def test_systems_with_the_unknown_on_the_left() -> None:
    agree(lambda a, b: linalg.solve(a, b, left=False), normal(3, 3), normal(2, 2, 3))


def test_a_vector_as_right_side() -> None:
    agree(linalg.solve, normal(3, 3), normal(3))


def test_factors_unpacked() -> None:
    agree(lambda a: torch.lu_unpack(*linalg.lu_factor(a))[1], normal(3, 2))
    agree(lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b), normal(3, 3), normal(3, 2))


@pytest.mark.parametrize("upper", [False, True])
def test_the_inverse_from_a_cholesky_factor(upper: bool) -> None:
    a = normal(3, 3)
    factor = linalg.cholesky(a @ a.mT + torch.eye(3), upper=upper)
    compiled = torch.compile(lambda f: torch.cholesky_inverse(f, upper=upper), backend="xlac")
    torch.testing.assert_close(compiled(factor), torch.cholesky_inverse(factor, upper=upper))


LIMITS: list[tuple[bool, dict[str, Any]]] = [
    (False, {}),
    (True, {}),
    (False, {"rtol": 0.3}),
    (True, {"atol": 1.0}),
    (True, {"atol": 1.0, "rtol": 0.01}),
]


@pytest.mark.parametrize(("hermitian", "limits"), LIMITS)
def test_pseudo_inverses(hermitian: bool, limits: dict[str, Any]) -> None:
    """Traced and not compiled: programs of singular values take seconds to compile."""
    half = normal(3, 2)
    a = half @ half.mT if hermitian else normal(3, 2)  # of rank 2

    class Inverse(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return linalg.pinv(x, hermitian=hermitian, **limits)

    program = torch.export.export(Inverse(), (a,))
    model = xlac.compile(program, target="reference")
    found = torch.from_numpy(model(a.numpy()))
    torch.testing.assert_close(found, Inverse()(a), rtol=1e-9, atol=1e-9)


def test_exponentials_of_matrices() -> None:
    """One of a batch is squared, one is not; the gradient is the exponential of a larger matrix."""
    scale = torch.tensor([0.1, 9.0], dtype=torch.float64).reshape(2, 1, 1)
    function = torch.compile(linalg.matrix_exp, backend="xlac", options={"fallback": False})
    value = normal(2, 2, 2) * scale
    torch.testing.assert_close(function(value), linalg.matrix_exp(value), rtol=1e-12, atol=1e-12)


def test_exponentials_of_infinite_matrices_end() -> None:
    function = torch.compile(linalg.matrix_exp, backend="xlac", options={"fallback": False})
    assert not function(torch.full((1, 1), torch.inf)).isfinite().any()


class Solves(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return linalg.solve(a, b)


def test_an_exported_program_with_tokens(tmp_path: Any) -> None:
    """PyTorch orders the check of a singular matrix by a token, an input and an output."""
    a, b = normal(3, 3), normal(3, 2)
    torch.testing.assert_close(xlac.from_torch(Solves(), a, b)(a, b), linalg.solve(a, b))
    torch.export.save(torch.export.export(Solves(), (a, b)), tmp_path / "solves.pt2")
    x = xlac.compile(tmp_path / "solves.pt2")(a.numpy(), b.numpy())
    torch.testing.assert_close(torch.from_numpy(x), linalg.solve(a, b))


def test_effects_beside_parts_that_run_in_pytorch() -> None:
    """Where PyTorch runs a part, it orders its effects by tokens of its own: a singular matrix is
    an error then, as in eager mode.
    """

    def function(a: Any) -> Any:
        return torch.special.bessel_j0(linalg.solve(a, a.sin()))

    compiled = torch.compile(function, backend="xlac")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        a = normal(3, 3)
        torch.testing.assert_close(compiled(a), function(a))
        with pytest.raises(RuntimeError, match="singular"):
            compiled(torch.zeros_like(a))
