"""The order of an epoch is a permutation, the same everywhere and for ever."""

from __future__ import annotations

import numpy as np
import pytest

from xlac.training.data.batches import EpochOrder
from xlac.training.data.order import shuffled

MASK, GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def as_documented(position: int, rows: int, seed: int, epoch: int) -> int:
    """The definition of the module's docstring, in Python's integers."""
    begun = mix((mix((0 + seed + GOLDEN) & MASK) + epoch + GOLDEN) & MASK)
    half = next(h for h in range(1, 40) if 4**h >= rows)
    while True:
        left, right = divmod(position, 1 << half)
        for r in range(8):
            left, right = (
                right,
                left ^ (mix(right ^ mix((begun + r + GOLDEN) & MASK)) % (1 << half)),
            )
        position = left << half | right
        if position < rows:
            return position


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 16, 17, 1000, 1437])
def test_every_row_comes_once(rows: int) -> None:
    orders = [
        shuffled(np.arange(rows), rows, seed, epoch)
        for seed, epoch in ((0, 1), (0, 2), (7, 1), (-1, 1))
    ]
    for order in orders:
        assert sorted(order) == list(range(rows))
    if rows > 16:
        assert len({order.tobytes() for order in orders}) == 4


def test_it_is_what_the_page_says() -> None:
    for rows, seed, epoch in (
        (10, 0, 1),
        (1437, 3, 2),
        (1 << 33, 5, 9),
        (1000, -4, 1),
        (7, 1 << 70, 3),
    ):
        at = np.array([0, 1, 5, rows - 1])
        expected = [as_documented(int(p), rows, seed & MASK, epoch) for p in at]
        assert shuffled(at, rows, seed, epoch).tolist() == expected
    assert shuffled(np.arange(10), 10, 0, 1).tolist() == TEN


def test_pairs_are_as_frequent_as_each_other() -> None:
    rows, seeds = 8, 400
    first = np.array([shuffled(np.arange(2), rows, seed, 1) for seed in range(seeds)])
    counts = np.zeros((rows, rows))
    np.add.at(counts, (first[:, 0], first[:, 1]), 1)
    off = ~np.eye(rows, dtype=bool)
    expected = seeds / off.sum()
    chi2 = ((counts[off] - expected) ** 2 / expected).sum() / (off.sum() - 1)
    assert not counts[~off].any() and 0.6 < chi2 < 1.5


def test_batches_of_an_epoch() -> None:
    order = EpochOrder(4, epoch=2, seed=1)
    parts = list(order.batches(10, 0))
    assert [len(p) for p in parts] == [4, 4, 2] and order.steps(10) == 3
    assert np.concatenate(parts).tolist() == shuffled(np.arange(10), 10, 1, 2).tolist()
    assert [p.tolist() for p in order.batches(10, 2)] == [parts[2].tolist()]
    dropped = EpochOrder(4, epoch=2, seed=1, drop_last=True)
    assert [p.tolist() for p in dropped.batches(10, 0)] == [p.tolist() for p in parts[:2]]
    assert [p.tolist() for p in EpochOrder(4).batches(6, 0)] == [[0, 1, 2, 3], [4, 5]]


TEN = [0, 9, 7, 5, 1, 4, 2, 3, 6, 8]
