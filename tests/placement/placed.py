"""Models compiled in stages, and the single program that they must equal."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from graphs import results

from xlac.api import compile
from xlac.model import Model, SaidPlace
from xlac.ops.control.control import Pick
from xlac.placement.devices import LEAVES


def paths(model: Model) -> list[str]:
    """The paths of the nodes that a target computes, the innermost first, as patterns must be."""
    computed = (n for n in model.graph.order if not isinstance(n.op, (*LEAVES, Pick)) and n.name)
    return sorted(dict.fromkeys(n.name for n in computed), key=lambda path: -path.count("."))


def drawn_places(model: Model, targets: Iterable[str], seed: int) -> tuple[SaidPlace, ...]:
    """A target for every path, in runs of random lengths."""
    generator, known, places = random.Random(seed), list(targets), []
    target = generator.choice(known)
    for path in paths(model):
        if generator.random() < 0.4:
            target = generator.choice(known)
        places.append(SaidPlace(path, (target,)))
    return tuple(places)


def placed(model: Model, places: tuple[SaidPlace, ...], **options: Any) -> Any:
    """The model in stages."""
    return compile(replace(model, place=places), **options)


def random_inputs(model: Model, seed: int) -> dict[str, Any]:
    """Arrays for the inputs of a model of fixed sizes: small, so that loops neither overflow nor
    run on.
    """
    generator, arrays = np.random.default_rng(seed), {}
    for node in model.inputs:
        shape, dtype = node.type.shape, node.type.dtype.numpy
        if np.issubdtype(dtype, np.floating):
            arrays[node.op.name] = generator.uniform(0, 1, shape).astype(dtype)
        else:
            arrays[node.op.name] = generator.integers(0, 2, shape).astype(dtype)
    return arrays


def assert_equal(program: Any, single: Any, inputs: Mapping[str, Any]) -> None:
    """Asserts that two programs of a model give the same, but for the order of sums."""
    ours, theirs = results(program, inputs), results(single, inputs)
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        scale = np.max(np.abs(array.astype(np.float64)), initial=1)
        np.testing.assert_allclose(ours[name], array, rtol=2e-5, atol=2e-5 * scale, err_msg=name)
