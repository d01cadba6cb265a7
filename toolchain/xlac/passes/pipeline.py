"""The passes, in order. Read this first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Protocol

from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.passes import (
    contractions,
    cse,
    dce,
    expand,
    fold,
    inline,
    layout,
    loops,
    merge_dots_sharing_rhs,
    motion,
    simplify,
    split_matmul_over_concat,
)
from xlac.passes.attention import recognize
from xlac.passes.rewrite.context import Context, IsKept
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.limits import look
from xlac_sdk.target import Target

Pass = Callable[[Graph, Trace, Context], Graph]

PASSES: dict[str, Pass] = {
    "simplify": simplify.run,  # what the user wrote, while composites still have their names
    "expand": expand.run,  # composites that the target does not claim become primitives
    "inline": inline.run,  # calls, branches that are known to be taken, loops of one step
    "simplify-expanded": simplify.run,
    "cse": cse.run,
    "fold": fold.run,  # constants are computed, weight expressions become derived weights
    # said by its name where it was written by hand and the target takes it whole
    "attention": recognize.run,
    "loops": loops.run,  # invariants and whole products leave loops
    "dce": dce.run,  # results, carried values and operands of loops and branches that nothing needs
    # products of few rows read the parts of a concatenation where they lie
    "pieces": split_matmul_over_concat.run,
    "motion": motion.run,  # views sink through computation and cancel
    "layout": layout.run,  # convolutions take channels last; transposes between them cancel
    "contractions": contractions.run,  # dots in canonical form; batch norm goes into weights
    # products of several values with one matrix are one product
    "together": merge_dots_sharing_rhs.run,
    "fold-moved": fold.run,  # what the last three left to do to weights
    "simplify-folded": simplify.run,
    "cse-folded": cse.run,
}

RULES: tuple[Rule, ...] = tuple(
    dict.fromkeys((*simplify.RULES, *layout.RULES, *contractions.RULES))
)
"""Every rule that some pass applies, each once."""


class Observer(Protocol):
    """Told of every pass: the dump, the timer and the bisector are observers."""

    def __call__(self, name: str, before: Graph, after: Graph, seconds: float) -> None: ...


def optimize(
    graph: Graph,
    target: Target,
    *,
    weights: Mapping[str, Array],
    precision: str = "default",
    observers: Sequence[Observer] = (),
    trace: Trace | None = None,
    until: str | None = None,
    start: str | None = None,
    checked: bool = False,
    is_kept: IsKept,
) -> Graph:
    """The graph after every pass, or those from `start` to `until`.

    Weights that passes derive are added to `weights` if it is a `Weights`, so make one
    (`Weights.over`) to have them. `checked` verifies the graph after each pass that changed it.
    `is_kept` says which composites are not expanded: `codegen.claims.is_kept`.
    """
    known = trace or Trace()
    context = Context(target, Weights.over(weights), precision, is_kept)
    for name in chosen(start, until):
        look(f"pass {name}")
        before, began, known.stage = graph, perf_counter(), name
        graph = PASSES[name](graph, known, context)
        seconds = perf_counter() - began
        if checked and graph is not before:
            from xlac.ir.verify import verify

            verify(graph)
        for observe in observers:
            observe(name, before, graph, seconds)
    return graph


def chosen(start: str | None, until: str | None) -> list[str]:
    """The passes from `start` to `until`, both included."""
    names = list(PASSES)
    for name in (start, until):
        if name is not None and name not in PASSES:
            raise SourceError(
                Diagnostic(
                    "XL4101", f"there is no pass {name!r}", hint=f"there are {', '.join(names)}"
                )
            )
    first = names.index(start) if start is not None else 0
    last = names.index(until) if until is not None else len(names) - 1
    return names[first : last + 1]
