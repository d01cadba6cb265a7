"""The stage of each path of nodes: as a model says, or so that stages take about as long as one
another and pass on few bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import inf

from xlac.ir.graph import Graph
from xlac.ir.paths import fits
from xlac.model import SaidPipeline
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.pipelining.stages import StageOfPath
from xlac.placement.cut import nbytes
from xlac.spmd.run_time import Rates, seconds_of
from xlac_sdk.source import Diagnostic, SourceError

SLACK = 1.05
"""Stages may take longer than the best balance by this, where fewer bytes pass then."""


def stages_of(said: SaidPipeline, ranks: int, graph: Graph, rates: Rates) -> StageOfPath:
    """The stages of a pipeline on some ranks. `graph` is the model's, of primitives and fixed
    sizes, whose times count where stages are not said. Raises SourceError for another number of
    stages than ranks can take in turn, and for a model with fewer nodes than stages.
    """
    if said.stages is None:
        return _balanced(said, said.chunks * ranks, graph, rates)
    count, patterns = len(said.stages), said.stages
    if count % ranks:
        problem = f"there are {count} stages for {ranks} ranks along '{said.axis}'"
        hint = f"give as many stages, or a multiple of that: --mesh {said.axis}={count}"
        raise SourceError(Diagnostic("XL7840", problem, said.span, hint))
    known: dict[str, int | None] = {}

    def stage(path: str) -> int | None:
        if path not in known:
            places = (n for n, some in enumerate(patterns) if any(fits(path, p) for p in some))
            known[path] = next(places, None)
        return known[path]

    return stage


def _balanced(said: SaidPipeline, count: int, graph: Graph, rates: Rates) -> StageOfPath:
    """Paths in the order of the graph, cut where the slowest stage takes least; of such cuts, those
    where the fewest bytes cross.
    """
    nodes = [n for n in graph.order if not isinstance(n.op, (Param, Const, Iota))]
    paths = list(dict.fromkeys(node.name for node in nodes if node.name))
    if len(paths) < count:
        problem = f"{count} stages are asked for, and the model has {len(paths)} nodes with names"
        raise SourceError(Diagnostic("XL7840", problem, said.span, "take fewer"))
    number = {path: n for n, path in enumerate(paths)}
    seconds = [0.0] * len(paths)
    crossing = [0] * (len(paths) + 1)  # bytes of values made before a path and read from it on
    at = 0
    place = {}
    for node in nodes:
        at = number[node.name] if node.name else at
        place[node] = at
        seconds[at] += seconds_of(node, rates)
    last: dict[object, int] = {}
    for node in nodes:
        for given in node.inputs:
            last[given] = max(last.get(given, 0), place[node])
    for node in nodes:
        for cut in range(place[node] + 1, last.get(node, 0) + 1):
            crossing[cut] += nbytes(node)
    cuts = _cuts(seconds, crossing, count)
    stage_of = {path: sum(cut <= n for cut in cuts) for path, n in number.items()}
    return stage_of.get


def _cuts(seconds: Sequence[float], crossing: Sequence[int], count: int) -> list[int]:
    """Where each stage but the first begins."""
    sums = [0.0, *accumulate(seconds)]
    low, high = max(seconds, default=0.0), sums[-1]
    for _ in range(50):  # the least time in which the slowest stage can be done
        middle = (low + high) / 2
        if _needed(sums, middle) <= count:
            high = middle
        else:
            low = middle
    limit, size = high * SLACK, len(seconds)
    best = [[inf] * (size + 1) for _ in range(count + 1)]
    before = [[0] * (size + 1) for _ in range(count + 1)]
    best[0][0] = 0.0
    for stage in range(1, count + 1):
        for end in range(stage, size + 1):
            begin = end - 1
            while begin >= stage - 1 and sums[end] - sums[begin] <= limit:
                total = best[stage - 1][begin] + (crossing[begin] if begin else 0)
                if total < best[stage][end]:
                    best[stage][end], before[stage][end] = total, begin
                begin -= 1
    cuts, end = [], size
    for stage in range(count, 1, -1):
        end = before[stage][end]
        cuts.append(end)
    return cuts[::-1]


def _needed(sums: Sequence[float], limit: float) -> int:
    """How many stages of at most a time there are; each takes what it can."""
    stages, begin = 1, 0.0
    for before, after in pairwise(sums):
        if after - begin > limit:
            stages, begin = stages + 1, before
    return stages
