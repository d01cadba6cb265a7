"""Linear algebra of PyTorch: eager mode's results, or factors of the same matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")


def drawn(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(len(shape)).normal(size=shape))


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic


def positive(a: torch.Tensor) -> torch.Tensor:
    return a @ a.mT + torch.eye(a.shape[-1], dtype=a.dtype)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda a: torch.linalg.solve(a, a * 2 + 1),
    "solve of vectors": lambda a: torch.linalg.solve(a, a[..., 0]),
    "solve from the right": lambda a: torch.linalg.solve(a, a + 1, left=False),
    "inv": torch.linalg.inv,
    "det": torch.linalg.det,
    "slogdet": torch.linalg.slogdet,
    "lu": torch.linalg.lu,
    "lu_factor": torch.linalg.lu_factor,
    "lu_solve": lambda a: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), a + 1),
    "lu_solve of the adjoint, from the right": lambda a: torch.linalg.lu_solve(
        *torch.linalg.lu_factor(a), a + 1, left=False, adjoint=True
    ),
    "cholesky": lambda a: torch.linalg.cholesky(positive(a)),
    "cholesky_solve": lambda a: torch.cholesky_solve(a, torch.linalg.cholesky(positive(a))),
    "qr": torch.linalg.qr,
    "complete qr": lambda a: torch.linalg.qr(a[..., :-1], mode="complete"),
    "eigvalsh": lambda a: torch.linalg.eigvalsh(a + a.mT),
    "eigh": lambda a: [x.abs() for x in torch.linalg.eigh(a + a.mT)],
    "svdvals": torch.linalg.svdvals,
    "svd": lambda a: [x.abs() for x in torch.linalg.svd(a, full_matrices=False)],
    "matrix_power": lambda a: torch.linalg.matrix_power(a, -2),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_eager_mode(name: str) -> None:
    a = drawn(2, 5, 5)
    compiled = torch.compile(FUNCTIONS[name], backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(a), FUNCTIONS[name](a), rtol=1e-9, atol=1e-9)


GRADIENTS = {
    "inv": lambda a: torch.linalg.inv(a).sum(),
    "cholesky": lambda a: (torch.linalg.cholesky(positive(a)) ** 2).sum(),
    "qr": lambda a: (torch.linalg.qr(a)[1] ** 3).sum(),
    "eigh": lambda a: (torch.linalg.eigvalsh(a + a.mT) ** 3).sum(),
    "svd": lambda a: (torch.linalg.svdvals(a) ** 3).sum(),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_eager_mode(name: str) -> None:
    function, a = GRADIENTS[name], drawn(2, 4, 4)
    found = []
    for called in (function, torch.compile(function, backend="xlac", options={"fallback": False})):
        given = a.clone().requires_grad_()
        called(given).backward()
        found.append(given.grad)
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-8)


COMPLEX: dict[str, Callable[[Any], Any]] = {
    **{
        name: FUNCTIONS[name]
        for name in (
            "solve",
            "solve of vectors",
            "solve from the right",
            "inv",
            "det",
            "slogdet",
            "lu",
            "lu_solve of the adjoint, from the right",
            "qr",
            "svdvals",
            "matrix_power",
        )
    },
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mH + torch.eye(4, dtype=a.dtype)),
    "eigvalsh": lambda a: torch.linalg.eigvalsh(a + a.mH),
    "eigh": lambda a: rebuilt(*torch.linalg.eigh(a + a.mH)),
    "eig": lambda a: rebuilt(*torch.linalg.eig(a)),
    "triangular": lambda a: torch.linalg.solve_triangular(a, a.mT, upper=False),
}


def rebuilt(values: Any, vectors: Any) -> Any:
    """The matrix of eigenvalues and eigenvectors, which does not depend on their order."""
    wide = values.to(vectors.dtype)
    return torch.linalg.solve(vectors, vectors * wide[..., None, :], left=False)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", COMPLEX)
def test_results_of_complex_matrices_are_those_of_eager_mode(name: str) -> None:
    a = torch.complex(drawn(2, 4, 4), drawn(2, 4, 4, 1)[..., 0])
    compiled = torch.compile(COMPLEX[name], backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(a), COMPLEX[name](a), rtol=1e-9, atol=1e-9)


def test_eigenvalues_of_real_matrices_are_those_of_eager_mode() -> None:
    a = drawn(2, 3, 3)
    function = COMPLEX["eig"]
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(a), function(a), rtol=1e-9, atol=1e-9)
