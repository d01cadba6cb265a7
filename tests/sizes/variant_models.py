"""Models with variants for chosen sizes, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac import api
from xlac.model import Model

TARGETS = ("cpu", "c", "reference")
VARIANTS: dict[str, list[dict[str, int]]] = {
    "digits": [{"batch": 1}, {"batch": 32}],
    "loop_scan": [{"T": 1}, {"T": 9}],
    "lstm_3x60": [{"B": 1, "T": 8}, {"B": 2}],
    "bert_layer": [{"batch": 2, "sequence": 9}, {"sequence": 16}],
    "gpt2_decode": [{"batch": 1}, {"batch": 3, "past": 20}],
}


def compiled(opened: Model, target: str, variants: Sequence[Mapping[str, int]] = ()) -> Any:
    return api.compile(opened, target, sizes="symbolic", variants=variants)
