"""What a pass may know besides the graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.passes.weights import Weights
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class Context:
    """The target's facts, the weights, and the model's precision.

    `precision` is "default" (rules keep the rounding of each operation) or "fast" (they may
    reassociate, use identities that hold for real numbers, and leave out the rounding of halves).
    """

    target: Target = field(default_factory=lambda: Target("generic"))
    weights: Weights = field(default_factory=Weights)
    precision: str = "default"

    @property
    def fast(self) -> bool:
        return self.precision == "fast"
