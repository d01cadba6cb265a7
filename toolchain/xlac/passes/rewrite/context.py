"""Facts beside the graph that passes may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xlac.ir.graph import Node
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.weights import Weights
from xlac_sdk.target import Target

IsKept = Callable[[Node, Target], bool]


def claimed(node: Node, target: Target) -> bool:
    """Whether the target takes a composite whole."""
    return node.op.mnemonic in target.claims


@dataclass(frozen=True, slots=True)
class PassContext:
    """The target's facts, the weights, and the model's precision.

    `precision` is "default" (rules keep the rounding of each operation) or "fast" (they may
    reassociate, use identities of real numbers, and omit rounding to half precision). `is_kept`
    decides which composites are not expanded: those that the target claims, and those that a
    lowering takes whole (`codegen/claims.py`). `choices` decides about rewrites that may be left
    out.
    """

    target: Target = field(default_factory=lambda: Target("generic"))
    weights: Weights = field(default_factory=Weights)
    precision: str = "default"
    is_kept: IsKept = claimed
    choices: RewriteChoices = field(default_factory=RewriteChoices)

    @property
    def fast(self) -> bool:
        """Whether the model permits fast arithmetic."""
        return self.precision == "fast"
