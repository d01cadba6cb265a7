"""PyTorch's optimizers, written with JAX: what each keeps at first, and a step of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

Tensors = dict[str, Any]


def nothing(weights: Tensors) -> Any:
    """The state of SGD before the first step: zeros in the shapes of the weights."""
    return {name: jnp.zeros_like(w) for name, w in weights.items()}


def sgd(
    weights: Tensors,
    gradients: Tensors,
    kept: Any,
    *,
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> Any:
    """The next weights and momentum of SGD."""
    gradients = {n: g + weight_decay * weights[n] for n, g in gradients.items()}
    kept = {n: momentum * kept[n] + g for n, g in gradients.items()} if momentum else {}
    return {n: w - lr * (kept or gradients)[n] for n, w in weights.items()}, kept


def moments(weights: Tensors) -> Any:
    """The state of Adam before the first step: both moments and the count."""
    return nothing(weights), nothing(weights), jnp.zeros((), jnp.float32)


def adam(
    weights: Tensors, gradients: Tensors, kept: Any, *, lr: float, weight_decay: float = 0.0
) -> Any:
    """The next weights and moments of Adam."""
    first, second, count = kept
    count = count + 1
    first = {n: 0.9 * first[n] + 0.1 * g for n, g in gradients.items()}
    second = {n: 0.999 * second[n] + 0.001 * g * g for n, g in gradients.items()}
    one, two = 1 - 0.9**count, 1 - 0.999**count

    def moved(name: str, w: Any) -> Any:
        length = jnp.sqrt(second[name]) / jnp.sqrt(two) + 1e-8
        return w * (1 - lr * weight_decay) - lr / one * first[name] / length

    return {n: moved(n, w) for n, w in weights.items()}, (first, second, count)


Update = tuple[Callable[[Tensors], Any], Callable[..., Any]]
UPDATES: dict[str, Update] = {
    "SGD": (nothing, sgd),
    "Adam": (moments, adam),
    "AdamW": (moments, adam),
}
"""Name in torch.optim -> (what is kept of weights at first, the step). Adam has no decay here."""
