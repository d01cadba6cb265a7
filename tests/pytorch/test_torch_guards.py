"""The gradients recorded in tests/autodiff/guard_cases.py are PyTorch's."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional

from tests.autodiff.guard_cases import CASES

NONE = {"reduction": "none"}
INF = math.inf
FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "binary_cross_entropy": lambda x, y: functional.binary_cross_entropy(x, y, **NONE),
    "binary_cross_entropy of sigmoid": lambda x, y: functional.binary_cross_entropy(
        x.sigmoid(), y, **NONE
    ),
    "binary_cross_entropy_with_logits": lambda x, y: functional.binary_cross_entropy_with_logits(
        x, y, **NONE
    ),
    "huber_loss": lambda x, y: functional.huber_loss(x, y, **NONE),
    "l1_loss": lambda x, y: functional.l1_loss(x, y, **NONE),
    "kl_div": lambda x, y: functional.kl_div(x, y, **NONE),
    "cosine_similarity": lambda x, y: functional.cosine_similarity(x, y, dim=1),
    "normalize": lambda x, row: functional.normalize(x, dim=1) * row,
    "normalize, ord 1": lambda x, row: functional.normalize(x, p=1, dim=1) * row,
    "normalize, ord inf": lambda x, row: functional.normalize(x, p=INF, dim=1) * row,
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "norm, ord 1": lambda x: torch.linalg.vector_norm(x, 1, dim=1),
    "norm, ord inf": lambda x: torch.linalg.vector_norm(x, INF, dim=1),
    "std": lambda x: x.std(1, correction=0),
    "reduce_max": lambda x: x.amax(1),
    "reduce_min": lambda x: x.amin(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "clip": lambda x: x.clamp(-1, 1),
    "clip, above": lambda x: x.clamp(0),
    "clip between tensors": torch.clamp,
    "softplus": functional.softplus,
    "mish": functional.mish,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_recorded_gradients_are_those_of_pytorch(name: str) -> None:
    case = CASES[name]
    xs = [torch.tensor(np.asarray(a, np.float64)) for a in case.arguments]
    wanted = [x.requires_grad_() for x in xs[: len(case.gradients)]]
    found = torch.autograd.grad(FUNCTIONS[name](*xs).sum(), wanted)
    for one, recorded in zip(found, case.gradients, strict=True):  # 1e-12 is an f32 in PyTorch
        np.testing.assert_allclose(one.numpy(), np.asarray(recorded, np.float64), 1e-8, 1e-12)
