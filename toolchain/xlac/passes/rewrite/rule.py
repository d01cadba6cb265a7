"""The interface of rewrite rules, and rules written as functions; equations are in `pattern`."""

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
    """The place where a rule is tried."""

    @property
    def context(self) -> PassContext:
        """Facts about the model and the target."""

    def make(self, op: Op, *inputs: Node) -> Node:
        """A node, simplified, with the origin of the one being rewritten."""
        ...

    def with_inputs(self, node: Node, *inputs: Node) -> Node:
        """A node on other inputs, simplified, with the origin that it had: for what remains of the
        node being rewritten when another is folded into its operands.
        """
        ...

    def has(self, op: Op, *inputs: Node) -> bool:
        """Whether a rule made this node, or the graph had it, before the one being rewritten."""
        ...

    def single(self, node: Node) -> bool:
        """Whether only the node being rewritten reads this one, so that rewriting removes it."""
        ...


class Rule(Protocol):
    """The interface of all rules."""

    @property
    def name(self) -> str:
        """The name of the rule in traces and messages."""

    @property
    def heads(self) -> tuple[type[Op], ...]:
        """The operations that it applies to, by which rules are indexed."""
        ...

    @property
    def rounding(self) -> bool:
        """Whether it may change more than the last bits of a result, which needs precision
        "fast".
        """
        ...

    def rewrite(self, node: Node, site: Site) -> Node | None:
        """The replacement of a node, or None where the rule does not apply."""
        ...


def constant(node: Node) -> Array | None:
    """The number that all elements of a node are, through views of a constant; None if they
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
    """A rule written as a function. Each of its examples builds a node that it rewrites.

    An example gets a function `p(*shape, dtype=…, kind=…)` that makes parameters. A rule that
    `reassociates` adds or multiplies the same numbers in another order; it is permitted where the
    result is as accurate as before. One that `sharpens` replaces a formula by a function that is
    more accurate, and finite where the formula overflows.
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
        """The function's result for a node; None where it does not apply."""
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
