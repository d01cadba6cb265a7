"""Losses, lengths and activations where a guard takes the place of their formula: saturated
probabilities, rows of zeros, ties with a bound, infinities, corners. Beside them the gradients of
the sum of their results that PyTorch gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import xlac

Array = NDArray[Any]
INF, NAN = np.inf, np.nan
ROOT = 3**-0.5


@dataclass(frozen=True, slots=True)
class GuardCase:
    """A function with its arguments, and its gradients by the first of them."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    gradients: tuple[Any, ...]


def saturated(x: Any, y: Any) -> Any:
    """The loss of probabilities that are a sigmoid."""
    return xlac.binary_cross_entropy(xlac.sigmoid(x), y, reduction="none")


def weighted(x: Any, row: Any) -> Any:
    """Unit vectors times a row, so that their gradient along themselves is not all there is."""
    return xlac.normalize(x, axis=1) * row


ROWS = [[0, 0, 0], [1, 2, 2], [0, 0, 3]]
SPECIAL = [[1, 3, 3, 2], [0, NAN, 1, 2], [INF, INF, 1, 2], [-INF] * 4]
LARGEST = [[0, 0.5, 0.5, 0], [NAN] * 4, [0.5, 0.5, 0, 0], [0.25] * 4]
LOGITS, LABELS = [0, 0, 800, 800, -800, -800, INF, -INF], [0, 1, 0, 1, 0, 1, 0, 1]
CASES = {
    "binary_cross_entropy": GuardCase(
        lambda x, y: xlac.binary_cross_entropy(x, y, reduction="none"),
        ([0, 1, 0, 1, 0.5], [0, 1, 1, 0, 1]),
        ([0, 0, -1e12, 1e12, -2],),
    ),
    "binary_cross_entropy of sigmoid": GuardCase(
        saturated, ([800, -800, 800, -800, 0], [1, 0, 0, 1, 1]), ([0, 0, 0, 0, -0.5],)
    ),
    "binary_cross_entropy_with_logits": GuardCase(
        lambda x, y: xlac.binary_cross_entropy_with_logits(x, y, reduction="none"),
        (LOGITS, LABELS),
        ([0.5, -0.5, 1, 0, 0, -1, 1, -1],),
    ),
    "huber_loss": GuardCase(
        lambda x, y: xlac.huber_loss(x, y, reduction="none"),
        ([0, 0.5, 1, -1, 3, -3, INF, -INF], [0] * 8),
        ([0, 0.5, 1, -1, 1, -1, 1, -1], [0, -0.5, -1, 1, -1, 1, -1, 1]),
    ),
    "l1_loss": GuardCase(
        lambda x, y: xlac.l1_loss(x, y, reduction="none"),
        ([0, 2, -2, INF, -INF], [0] * 5),
        ([0, 1, -1, 1, -1], [0, -1, 1, -1, 1]),
    ),
    "kl_div": GuardCase(
        lambda x, y: xlac.kl_div(x, y, reduction="none"),
        ([0, -1, -2], [0, 0.5, 1]),
        ([0, -0.5, -1],),
    ),
    "cosine_similarity": GuardCase(
        lambda x, y: xlac.cosine_similarity(x, y, axis=1),
        (ROWS, [[1, 1, 1], [0, 0, 0], [0, 3, 4]]),
        (
            [[1e8 * ROOT] * 3, [0, 0, 0], [0, 0.2, 0]],
            [[0, 0, 0], [1e8 / 3, 2e8 / 3, 2e8 / 3], [0, -0.096, 0.072]],
        ),
    ),
    "normalize": GuardCase(
        weighted,
        (ROWS, [1, 2, 3]),
        ([[1e12, 2e12, 3e12], [-2 / 27, -4 / 27, 5 / 27], [1 / 3, 2 / 3, 0]],),
    ),
    "normalize, ord 1": GuardCase(
        lambda x, row: xlac.normalize(x, axis=1, ord=1.0) * row,
        (ROWS, [1, 2, 3]),
        ([[1e12, 2e12, 3e12], [-0.24, -0.04, 0.16], [1 / 3, 2 / 3, 0]],),
    ),
    "normalize, ord inf": GuardCase(
        lambda x, row: xlac.normalize(x, axis=1, ord=INF) * row,
        (ROWS, [1, 2, 3]),
        ([[1e12, 2e12, 3e12], [0.5, -0.375, 0.125], [1 / 3, 2 / 3, 0]],),
    ),
    "norm": GuardCase(
        lambda x: xlac.norm(x, axis=1), (ROWS,), ([[0, 0, 0], [1 / 3, 2 / 3, 2 / 3], [0, 0, 1]],)
    ),
    "norm, ord 1": GuardCase(
        lambda x: xlac.norm(x, axis=1, ord=1.0), (ROWS,), ([[0, 0, 0], [1, 1, 1], [0, 0, 1]],)
    ),
    "norm, ord inf": GuardCase(
        lambda x: xlac.norm(x, axis=1, ord=INF), (ROWS,), ([[0, 0, 0], [0, 0.5, 0.5], [0, 0, 1]],)
    ),
    "std": GuardCase(
        lambda x: xlac.std(x, axis=1),
        ([[2, 2, 2], [-1, 0, 1]],),
        ([[0, 0, 0], [-(6**-0.5), 0, 6**-0.5]],),
    ),
    "reduce_max": GuardCase(lambda x: xlac.reduce_max(x, axis=1), (SPECIAL,), (LARGEST,)),
    "reduce_min": GuardCase(
        lambda x: xlac.reduce_min(x, axis=1), (np.negative(SPECIAL),), (LARGEST,)
    ),
    "logsumexp": GuardCase(
        lambda x: xlac.logsumexp(x, axis=1),
        ([[0, 0, -INF, -INF], *SPECIAL[1:]],),
        ([[0.5, 0.5, 0, 0], [NAN] * 4, [NAN, NAN, 0, 0], [NAN] * 4],),
    ),
    "clip": GuardCase(
        lambda x: xlac.clip(x, min=-1.0, max=1.0), ([-2, -1, 0, 1, 2, NAN],), ([0, 1, 1, 1, 0, 0],)
    ),
    "clip, above": GuardCase(lambda x: xlac.clip(x, min=0.0), ([-1, 0, 1],), ([0, 1, 1],)),
    "clip between tensors": GuardCase(
        xlac.clip,
        ([-2, -1, 0, 1, 2, 0], [-1, -1, -1, -1, -1, 2], [1, 1, 1, 1, 1, 1]),
        ([0, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]),
    ),
    "clip between a tensor and itself": GuardCase(
        lambda x, end: xlac.clip(x, end, end), ([-1, 0, 1], [0, 0, 0]), ([0, 1, 0], [1, 0, 1])
    ),
    "cbrt": GuardCase(xlac.cbrt, ([-INF, -8, 0, 1, INF],), ([0, 1 / 12, INF, 1 / 3, 0],)),
    "softplus": GuardCase(xlac.softplus, ([-800, -0.0, 0, 800],), ([0, 0.5, 0.5, 1],)),
    "mish": GuardCase(xlac.mish, ([-800, -0.0, 0, 800],), ([0, 0.6, 0.6, 1],)),
}

SECOND = {
    "binary_cross_entropy of sigmoid": [0, 0, 0, 0, 0.25],
    "binary_cross_entropy_with_logits": [0.25, 0.25, 0, 0, 0, 0, 0, 0],
    "huber_loss": [1, 1, 0, 0, 0, 0, 0, 0],
    "softplus": [0, 0.25, 0.25, 0],
    "mish": [0, 0.96 / 1.5, 0.96 / 1.5, 0],
}
"""The second derivatives of what is computed element by element."""
