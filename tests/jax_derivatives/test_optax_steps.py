"""Steps of optax's AdamW with clipping, compiled whole through from_jax: parameters, moments
and counts as under jax.jit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlac

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
jnp = jax.numpy


def net(parameters: Any, x: Any) -> Any:
    h = jnp.tanh(x @ parameters["w1"] + parameters["b1"])
    return h @ parameters["w2"]


@pytest.mark.parametrize("clip", [0.05, 1e6])  # one that acts, and one that does not
def test_adamw(clip: float) -> None:
    rate = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 2, 10)
    optimizer = optax.chain(
        optax.clip_by_global_norm(clip),
        optax.adamw(rate, weight_decay=0.1, mask={"w1": True, "b1": False, "w2": True}),
    )

    def step(parameters: Any, state: Any, x: Any, y: Any) -> Any:
        loss = lambda p: jnp.mean((net(p, x) - y) ** 2)
        value, gradients = jax.value_and_grad(loss)(parameters)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, value

    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        x, y = rng.normal(size=(8, 5)), rng.normal(size=(8, 2))
        parameters = {
            "w1": rng.normal(size=(5, 7)),
            "b1": np.zeros(7),
            "w2": rng.normal(size=(7, 2)),
        }
        state = jax.tree.map(np.asarray, optimizer.init(parameters))
        ours, theirs = (parameters, state), (parameters, state)
        compiled, jitted = xlac.from_jax(step, parameters, state, x, y), jax.jit(step)
        for _ in range(5):
            *ours, value = compiled(*ours, x, y)
            *theirs, wanted = jitted(*theirs, x, y)
            assert jax.tree.structure(ours) == jax.tree.structure(theirs)
            for a, b in zip(
                jax.tree.leaves((ours, value)), jax.tree.leaves((theirs, wanted)), strict=True
            ):
                assert np.asarray(a).dtype == np.asarray(b).dtype
                np.testing.assert_allclose(a, b, 1e-10, 1e-12)
    assert compiled.programs == 1
