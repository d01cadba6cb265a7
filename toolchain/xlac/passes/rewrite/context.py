"""Facts beside the graph that passes may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.weights import Weights
from xlac_sdk.target import Target

if TYPE_CHECKING:
    from xlac.passes.rewrite.rule import Rule

IsKept = Callable[[Node, Target], bool]
SettledNodes = dict[int, "tuple[Sequence[Rule], set[Node]]"]
"""By the identity of a table of rules: the table, and nodes to which none of its rules applies,
whoever reads their operands.
"""


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
    out. `settled` is what `rewriter.rewrite` remembers from one pass to the next, `numbers` and
    `greatest` what `rules.requantize` does: small values that depend on constants and weights only,
    and bounds for the magnitude of integers.
    """

    target: Target = field(default_factory=lambda: Target("generic"))
    weights: Weights = field(default_factory=Weights)
    precision: str = "default"
    is_kept: IsKept = claimed
    choices: RewriteChoices = field(default_factory=RewriteChoices)
    settled: SettledNodes = field(default_factory=dict, compare=False, repr=False)
    numbers: dict[Node, Array | None] = field(default_factory=dict, compare=False, repr=False)
    greatest: dict[Node, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def fast(self) -> bool:
        """Whether the model permits fast arithmetic."""
        return self.precision == "fast"
