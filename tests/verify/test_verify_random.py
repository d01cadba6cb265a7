"""Random graphs, of every kind of group, are found right: no false alarm for any draw of inputs."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from graphs import make

from xlac.debug.verify.subject import VerifiedProgram
from xlac.debug.verify.taps import Tapped
from xlac.debug.verify.verify import drawings, verified
from xlac.model import Model
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

DRAWS = ["random", "special", "ties", "large", "tiny"]


@pytest.mark.sampled(60)
@pytest.mark.parametrize("seed", range(150))
def test_random_graphs_are_right(seed: int) -> None:
    made = make(Random(seed), 14)
    model, backend = Model(made.graph, made.weights), find("cpu")
    program = VerifiedProgram.of(model, backend.target(Request()), backend)
    assert isinstance(program.taps, Tapped)
    drawn = {"own": dict(made.inputs), **drawings(model, {}, DRAWS, True, seed)}
    found = verified(program, drawn, ["reference"], None)
    assert found.right, found.text()
    bounds = [
        v.deviation.bound for v in found.values if v.draw == "own" and v.inherited is not None
    ]
    assert all(map(np.isfinite, bounds))
