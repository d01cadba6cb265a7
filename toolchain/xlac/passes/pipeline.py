"""The passes, in order. Read this first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, Protocol

from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.ir.verify import GraphError, verify
from xlac.passes import canonicalize_dots, channels_last, simplify, tabulate_bytes
from xlac.passes.attention.recognize import RecognizeAttentionPass
from xlac.passes.canonicalize_dots import CanonicalizeDotsPass
from xlac.passes.channels_last import ChannelsLastPass
from xlac.passes.control.dce import DcePass
from xlac.passes.control.hoist_loop_invariants import HoistLoopInvariantsPass
from xlac.passes.control.inline import InlinePass
from xlac.passes.control.recognize_scans import RecognizeScansPass
from xlac.passes.cse import CsePass
from xlac.passes.expand import ExpandPass
from xlac.passes.fold import FoldPass
from xlac.passes.limits.fit_buffers import FitBuffersPass
from xlac.passes.merge_dots_sharing_rhs import MergeDotsSharingRhsPass
from xlac.passes.motion import MotionPass
from xlac.passes.partial_sort import PartialSortPass
from xlac.passes.pipeline_text import parsed
from xlac.passes.registry import Pass
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.rewrite.context import IsKept, PassContext
from xlac.passes.rewrite.rule import Rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.simplify import SimplifyPass
from xlac.passes.split_matmul_over_concat import SplitMatmulOverConcatPass
from xlac.passes.tabulate_bytes import TabulateBytesPass
from xlac.passes.weights import Weights
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target


class Stage(NamedTuple):
    """A pass at its place in a pipeline: the second `simplify` is the stage `simplify-2`."""

    name: str
    run: Pass


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order. Printed as text (`simplify,expand,motion{limit=3}`) and parsed from it."""

    stages: tuple[Stage, ...]

    @staticmethod
    def of(passes: Iterable[Pass]) -> Pipeline:
        """A pipeline of some passes, each of which may occur more than once."""
        count: dict[str, int] = {}
        stages = []
        for one in passes:
            number = count[one.name] = count.get(one.name, 0) + 1
            stages.append(Stage(one.name if number == 1 else f"{one.name}-{number}", one))
        return Pipeline(tuple(stages))

    @staticmethod
    def parse(text: str) -> Pipeline:
        """Parses a pipeline. Raises SourceError, with the place, for invalid text."""
        return Pipeline.of(parsed(text))

    @staticmethod
    def asked(text: str) -> Pipeline:
        """Parses a pipeline; the default one for empty text. Raises as `parse`."""
        return Pipeline.parse(text) if text else DEFAULT

    def has(self, kind: type[Pass]) -> bool:
        """Whether one of its stages is a pass of this class."""
        return any(isinstance(stage.run, kind) for stage in self.stages)

    def __str__(self) -> str:
        return ",".join(str(stage.run) for stage in self.stages)

    def between(self, start: str | None, until: str | None) -> Pipeline:
        """The stages from `start` to `until`, both included. Raises SourceError for an unknown
        name.
        """
        names = [stage.name for stage in self.stages]
        for name in (start, until):
            if name is not None and name not in names:
                problem, hint = f"there is no pass {name!r}", f"there are {', '.join(names)}"
                raise SourceError(Diagnostic("XL4101", problem, hint=hint))
        first = names.index(start) if start is not None else 0
        last = names.index(until) if until is not None else len(names) - 1
        return Pipeline(self.stages[first : last + 1])


DEFAULT = Pipeline.of(
    (
        SimplifyPass(),  # the user's operations, while composites are not expanded yet
        ExpandPass(),  # composites that the target does not claim become primitives
        InlinePass(),  # calls, branches that are known to be taken, loops of one step
        SimplifyPass(),
        CsePass(),
        FoldPass(),  # constants are computed, weight expressions become derived weights
        # replaces attention written as simpler operations where the target takes it whole
        RecognizeAttentionPass(),
        RecognizeScansPass(),  # loops that count to a constant
        HoistLoopInvariantsPass(),  # and merges products of all iterations
        DcePass(),  # results, carried values and operands of loops and branches
        SplitMatmulOverConcatPass(),  # products of few rows read the parts of concatenations
        MotionPass(),  # views sink through computation and cancel
        PartialSortPass(),  # sorts of which only the first or last elements are read
        ChannelsLastPass(),  # of convolutions; transposes between them cancel
        CanonicalizeDotsPass(),  # batch norm goes into weights
        MergeDotsSharingRhsPass(),  # products of several values with one matrix are one product
        FoldPass(),  # folds what the last three passes did to weights
        SimplifyPass(),
        CsePass(),
        TabulateBytesPass(),  # byte functions become tables
        FitBuffersPass(),  # of more operands than a launch of the target takes
    )
)
"""The default pipeline."""

RULES: tuple[Rule, ...] = tuple(
    dict.fromkeys(
        (*simplify.RULES, *channels_last.RULES, *canonicalize_dots.RULES, *tabulate_bytes.RULES)
    )
)
"""Every rule that some pass applies, each once."""


class Observer(Protocol):
    """Is called after every pass: the dump, the timer and the bisector are observers."""

    def __call__(self, name: str, before: Graph, after: Graph, seconds: float) -> None: ...


Observers = Sequence[Observer]


def optimize(
    graph: Graph,
    target: Target,
    *,
    weights: Mapping[str, Array],
    precision: str = "default",
    observers: Observers = (),
    trace: Trace | None = None,
    pipeline: Pipeline = DEFAULT,
    verify_each: bool = False,
    is_kept: IsKept,
    choices: RewriteChoices | None = None,
) -> Graph:
    """The graph after every pass of the pipeline.

    Weights that passes derive are added to `weights` if it is a `Weights`, so make one
    (`Weights.over`) to have them. `verify_each` verifies the graph after each pass that changed it.
    `is_kept` says which composites are not expanded: `codegen.claims.is_kept`. `choices` decides
    about rewrites that may be left out. Raises GraphError, which names the pass, for a graph that
    is broken.
    """
    known = trace or Trace()
    chosen = choices or RewriteChoices()
    context = PassContext(target, Weights.over(weights), precision, is_kept, chosen)
    for name, one in pipeline.stages:
        checkpoint(f"pass {name}")
        before, began, known.stage = graph, perf_counter(), name
        graph = one.run(graph, known, context)
        seconds = perf_counter() - began
        if verify_each and graph is not before:
            check(graph, name)
        for observe in observers:
            observe(name, before, graph, seconds)
    return graph


def check(graph: Graph, name: str) -> None:
    """Verifies the output of a pass. Raises GraphError, which names the pass."""
    try:
        verify(graph)
    except GraphError as error:
        raise GraphError(f"pass '{name}' broke the graph: {error}", error.node) from error
