"""Random graphs, every node of which is on a target of its own: results are those of NumPy."""

from __future__ import annotations

import pytest
from graph_seams import seams
from graphs import assert_stages_like_numpy

from xlac.placement import arrange, split

BATCH = 5  # graphs of one test


@pytest.mark.sampled(20)
@pytest.mark.parametrize("batch", range(40))
@pytest.mark.parametrize("targets", [("cpu", "c", "reference"), ("cpu", "reference"), ("c", "cpu")])
def test_random_graphs_in_random_stages(
    batch: int, targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a half of the batches each target has a thread of its own, and stages are divided, however
    small they are.
    """
    if batch % 2:
        monkeypatch.setattr(arrange, "GAIN", -1.0)
        monkeypatch.setattr(split, "WORTH", -1.0)
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        assert_stages_like_numpy(seed, targets, more=(seams,) * 3)
