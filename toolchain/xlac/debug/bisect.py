"""Finds the rewrite that broke a result, by bisection over the sequence of rewrites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlac.passes.rewrite.trace import Trace

Attempt = Callable[[Trace], bool]
"""Optimizes with the rewrites that a trace permits and runs the graph; returns whether the result
is right.
"""


@dataclass(frozen=True, slots=True)
class Culprit:
    """Rewrite `number` of `of`, counted from 1; number 0: the result is wrong without any
    rewrite.
    """

    number: int
    of: int
    rewrite: str

    def __str__(self) -> str:
        if not self.number:
            return (
                "the graph as loaded, interpreted in its own types, is far from exact arithmetic: "
                "look at the model's numbers"
            )
        return f"rewrite {self.number} of {self.of}: {self.rewrite}"


def bisect(attempt: Attempt, tell: Callable[[str], None] = lambda line: None) -> Culprit | None:
    """The rewrite at fault, found in log2(their number) attempts; None when the result is right.

    Rewrites happen in the same order each time, so permitting the first k of them gives the graph
    at that point.
    """
    full = Trace()
    if attempt(full):
        return None
    total = len(full.fired)
    if not attempt(Trace(fuel=0)):
        return Culprit(0, total, "")
    good, bad = 0, total
    while bad - good > 1:
        middle = (good + bad) // 2
        right = attempt(Trace(fuel=middle))
        tell(f"{middle} of {total} rewrites: {'right' if right else 'wrong'}")
        good, bad = (middle, bad) if right else (good, middle)
    last = Trace(fuel=bad)
    attempt(last)
    return Culprit(bad, total, last.fired[bad - 1])
