"""Searches which rewrites are best made, and where values are best computed: each in turn is tried
the other way, and stays so if the groups that differ are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xlac.debug.tune.search import BETTER

Placed = Mapping[str, str]
Ask = Callable[[Placed, Placed, bool], Mapping[str, Any]]
"""Races placements beside the best ones; longer where it is True."""


@dataclass(slots=True, eq=False)
class PlacementSearch:
    """The values, or rewrites, of `choices` in their order; `best` are the words so far, `tried`
    those for which every other word was tried.
    """

    choices: Iterable[Mapping[str, Any]]
    ask: Ask
    best: dict[str, str] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)  # what each is, by name

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Tries values while there is time."""
        for choice in self.choices:
            name = choice["name"]
            for word in choice["others"]:
                if not goes_on():
                    return
                other = {**self.best, name: word}
                if self.faster(other, False) and self.faster(other, True):
                    self.best = other
            self.tried[name] = choice["what"]

    def faster(self, other: Placed, again: bool) -> bool:
        """Whether the groups that differ from the best placements' are faster with others."""
        ratio = self.ask(self.best, other, again).get("ratio")
        return ratio is not None and ratio <= BETTER
