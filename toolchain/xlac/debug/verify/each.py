"""Translation validation: after each single rewrite, the graph must compute the same results."""

from __future__ import annotations

from collections.abc import Callable

from xlac.debug.compare import ComparedModel
from xlac.passes.rewrite.trace import Trace


def each_rewrite(
    subject: ComparedModel, tell: Callable[[str], None] = lambda line: None
) -> tuple[int, str]:
    """The number of rewrites of a compile, and the first after which the graph, interpreted in
    float64, computes something else than the user's; "" where there is none. A fault that a later
    rewrite hides is found, too.
    """
    full = Trace()
    subject.optimized(full)
    total = len(full.fired)
    for number in range(1, total + 1):
        if number % 20 == 0:
            tell(f"{number} of {total} rewrites")
        if not subject.interpreted(Trace(fuel=number)).right:
            return total, f"rewrite {number} of {total}: {full.fired[number - 1]}"
    return total, ""
