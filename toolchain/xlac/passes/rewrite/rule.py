"""What a rewrite rule is, and rules that are functions. Those that are equations are in
`pattern`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from xlac.ir.graph import Node
from xlac.ir.op import Array, Op
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose
from xlac.passes.rewrite.context import PassContext


class Site(Protocol):
    """Where a rule is tried."""

    @property
    def context(self) -> PassContext:
        """What the passes are told of model and target."""

    def make(self, op: Op, *inputs: Node) -> Node:
        """A node, already simplified, with the origin of the one being rewritten."""
        ...

    def single(self, node: Node) -> bool:
        """Whether nothing but the node being rewritten reads this one, so that rewriting makes it
        vanish.
        """
        ...


class Rule(Protocol):
    """Anything that may rewrite a node."""

    @property
    def name(self) -> str:
        """What names the rule in traces and messages."""

    @property
    def heads(self) -> tuple[type[Op], ...]:
        """The operations it applies to: rules are found by these."""
        ...

    @property
    def rounding(self) -> bool:
        """Whether it may change a result beyond its last bits: then it needs precision "fast"."""
        ...

    def rewrite(self, node: Node, site: Site) -> Node | None:
        """The better node, or nothing where the rule does not apply."""
        ...


def constant(node: Node) -> Array | None:
    """The number that every element of a node is, through views of a constant; nothing if they
    differ.
    """
    while isinstance(node.op, Broadcast | Reshape | Transpose):
        (node,) = node.inputs
    if isinstance(node.op, Const) and node.op.value.size == 1:
        return node.op.value.reshape(())
    return None


def fill(value: Array, like: Node, site: Site) -> Node:
    """A tensor of the shape of `like` with every element `value`."""
    scalar = site.make(Const(value))
    return site.make(Broadcast(like.shape, ()), scalar) if like.shape else scalar


Parameter = Callable[..., Node]
Example = Callable[[Parameter], Node]
Rewrite = Callable[[Node, Site], "Node | None"]


@dataclass(frozen=True, eq=False, slots=True)
class Structural:
    """A rule that is a function. Each of its examples builds a node that it rewrites.

    An example gets a function `p(*shape, dtype=…, kind=…)` that makes parameters. A rule that
    `reassociates` adds or multiplies the same numbers in another order; it is permitted where the
    result is as accurate as before. One that `sharpens` puts a function in place of its formula: it
    is the more accurate, and finite where that overflows.
    """

    heads: tuple[type[Op], ...]
    function: Rewrite
    examples: Sequence[Example]
    rounding: bool = False
    reassociates: bool = False
    sharpens: bool = False

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    def __str__(self) -> str:
        return self.name

    def rewrite(self, node: Node, site: Site) -> Node | None:
        """What the function gives for a node; None where it does not apply."""
        return self.function(node, site)


def rule(
    *heads: type[Op],
    examples: Sequence[Example],
    rounding: bool = False,
    reassociates: bool = False,
    sharpens: bool = False,
) -> Callable[[Rewrite], Structural]:
    """Makes a rule of a function."""
    return lambda function: Structural(heads, function, examples, rounding, reassociates, sharpens)
