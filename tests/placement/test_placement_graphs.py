"""Random graphs, every node of which is on a target of its own: results are those of NumPy."""

from __future__ import annotations

from random import Random

import pytest
from graph_seams import seams
from graphs import assert_like_numpy, drawn_model, make

from xlac.api import compile
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
        generator = Random(seed)
        case = make(generator, more=(seams,) * 3)
        model = compile(drawn_model(case, generator, targets))
        for call in range(2):
            assert_like_numpy(case, model, f"seed {seed}, call {call}")
