"""Gradients of the operators of PyTorch's OpInfo database through `from_torch`, beside PyTorch's in
f64. What differs is listed in underived.yaml, which may only become shorter.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

torch = pytest.importorskip("torch")

from tests.pytorch import opinfo_gradients as opinfo

FOLDER = Path(__file__).parent
LISTED: dict[str, str] = yaml.safe_load((FOLDER / "underived.yaml").read_text("utf-8"))
REFUSED = yaml.safe_load((FOLDER / "unsupported.yaml").read_text("utf-8"))["operators"]
LIMIT = 2  # samples of an operator
AT_MOST = 4  # how long the list may be
NAMES = [n for n in sorted(opinfo.DIFFERENTIABLE) if n not in REFUSED]


def test_list() -> None:
    assert len(LISTED) <= AT_MOST and set(LISTED) <= set(opinfo.DIFFERENTIABLE)


@pytest.mark.sampled(100)
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_pytorch(name: str) -> None:
    try:
        for case in opinfo.cases(name, LIMIT):
            opinfo.check(case)
    except Exception:
        if name not in LISTED:
            raise
        return
    assert name not in LISTED, "it is right now: take it off the list"


@pytest.mark.parametrize("complex", [False, True])
def test_eigenvectors_of_stacks_of_matrices(complex: bool) -> None:
    """Functions of values and vectors that do not depend on the phases of vectors."""

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        values, vectors = torch.linalg.eig(torch.view_as_complex(x) if complex else x)
        weights = torch.arange(1.0, 5, dtype=torch.float64)
        by_size = values.abs().sum(-1), (values.real * values.real * values.real).sum(-1)
        return [*by_size, ((vectors.abs() ** 3).sum(-2) * values.abs()).sum(-1), x.sum() * weights]

    torch.manual_seed(0)
    x = torch.randn((2, 4, 4, 2) if complex else (2, 4, 4), dtype=torch.float64)
    opinfo.check(opinfo.GradientCase(function, [x], [0]))
