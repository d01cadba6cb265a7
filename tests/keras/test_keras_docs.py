"""docs/KERAS.md says what is true: its lists are the registry's."""

from __future__ import annotations

from pathlib import Path

from xlac.frontends.keras import reference
from xlac.frontends.keras.refused import REFUSED
from xlac.frontends.keras.registry import LAYERS

CHAPTER = (Path(__file__).parents[2] / "docs" / "KERAS.md").read_text(encoding="utf-8")
PUBLIC = (Path(__file__).parent / "public_layers.txt").read_text(encoding="utf-8").split()
"""The classes of keras.layers in Keras 3.15; `make test-keras` compares them with Keras."""


def test_the_lists_of_layers_are_the_registry() -> None:
    assert reference.written(CHAPTER) == CHAPTER, "run: make docs"


def test_every_layer_is_imported_or_refused_with_a_reason() -> None:
    refused = set().union(*REFUSED.values())
    assert set(PUBLIC) <= set(LAYERS) | refused
    assert not set(LAYERS) & refused
