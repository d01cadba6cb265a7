"""Rewrites about which there is a choice, as data: what a pass decides by its estimates of costs,
and what a user asks for instead.

Most rewrites are always for the better, or needed by what follows. Those that a pass asks
`RewriteChoices` about may be left out, or made where the pass would not. A choice is named by a
digest of the rewrite's name and of the operation that is rewritten, with those before it, so it has
the same name in every process and in equal layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xlac.ir.graph import Node
from xlac.ops.structure import digest_of, made

APPLIED, LEFT = "applied", "left"
WORDS = {APPLIED: True, LEFT: False}
"""What a user may ask for, in words."""


class RewriteChoice(NamedTuple):
    """A rewrite by its name, an operation that it is about, and whether it was applied."""

    what: str
    node: Node
    applied: bool


@dataclass(slots=True, eq=False)
class RewriteChoices:
    """The rewrites that were asked for, by name, and those that passes asked about. With `every`
    (or where some were asked for) passes also ask about rewrites that they would not make.
    """

    asked: Mapping[str, bool] = field(default_factory=dict)
    every: bool = False
    met: dict[tuple[str, Node], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.every = self.every or bool(self.asked)

    def applies(self, what: str, node: Node, usual: bool = True) -> bool:
        """Whether a possible rewrite of a node is to be made; `usual` is the pass's own choice."""
        if not usual and not self.every:
            return False
        wanted = self.asked.get(name_of(what, node), usual) if self.asked else usual
        self.met[what, node] = wanted
        return wanted

    def named(self) -> dict[str, RewriteChoice]:
        """The choices that there were, by name; without those that equal places did not settle
        alike.
        """
        found: dict[str, RewriteChoice] = {}
        several: set[str] = set()
        for (what, node), applied in self.met.items():
            name = name_of(what, node)
            if found.setdefault(name, RewriteChoice(what, node, applied)).applied is not applied:
                several.add(name)
        return {name: one for name, one in found.items() if name not in several}


def name_of(what: str, node: Node) -> str:
    """The name of the choice whether to rewrite a node."""
    return "r" + digest_of(what, made(node))
