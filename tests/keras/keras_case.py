"""How cases are written: a name, the shapes of the inputs, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Shape = tuple[int | None, ...]
Made = Callable[..., Any]
MODELS: dict[str, tuple[tuple[Shape, ...], Made, dict[str, str]]] = {}
"""By name: the shapes of the inputs without the batch, what is made of them, their types."""


def case(name: str, shapes: Sequence[Shape], made: Made, **dtypes: str) -> None:
    """Adds a case of several inputs."""
    assert name not in MODELS, name
    MODELS[name] = (tuple(shapes), made, dtypes)


def one(name: str, shape: Shape, *made: Made) -> None:
    """Adds cases of one input: NAME, NAME_1, …"""
    for number, layer in enumerate(made):
        case(f"{name}_{number}" if number else name, [shape], layer)


IMAGE, SERIES, SOLID = (7, 6, 4), (5, 4), (4, 5, 3, 2)
