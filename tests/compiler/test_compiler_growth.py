"""Compile work grows linearly with the model: counted in calls and lines, never in seconds."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import work

from xlac.codegen.claims import is_kept, kind_taken
from xlac.codegen.kernel_dedup import LoweringCache
from xlac.frontends.loader import load
from xlac.fusion.partition import partition
from xlac.memory.planner import planned
from xlac.passes.capture import captured
from xlac.passes.pipeline import optimize
from xlac.passes.weights import Weights
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from generated_specs import KINDS, spec  # the specs that the bench of compile time is about

MOST = 2.3  # times the work for twice the nodes
FLOOR = 15_000  # calls below which a stage does not count: it is not where a compile's time goes

Count = Callable[[str, Callable[[], Any]], Any]


def stages(path: Path, count: Count) -> None:
    """Compiles a spec to the backend's text, each stage through `count`."""
    backend = find("cpu")
    target = backend.target(Request())
    model = count("load", lambda: load(path))
    weights = Weights.over(model.weights)
    graph = count("passes", lambda: optimize(model.graph, target, weights=weights, is_kept=is_kept))
    groups = count("fusion", lambda: partition(captured(graph), target, kind_taken=kind_taken))
    schedules = LoweringCache(target)
    lowerings = count("schedule", lambda: schedules.lowered(groups))
    program = count("memory", lambda: planned(groups, lowerings, weights))[0]
    count("emit", lambda: backend.emit(program, target))


def calls(path: Path) -> dict[str, int]:
    """How many functions each stage calls, those in C too."""
    found: dict[str, int] = {}

    def count(name: str, run: Callable[[], Any]) -> Any:
        results: list[Any] = []
        found[name] = work.calls(lambda: results.append(run()))
        return results[0]

    stages(path, count)
    return found


def lines(path: Path) -> dict[str, int]:
    """How many lines each stage runs: loops that call nothing count too."""
    found: dict[str, int] = {}

    def count(name: str, run: Callable[[], Any]) -> Any:
        seen = 0

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal seen
            seen += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return run()
        finally:
            sys.settrace(before)
            found[name] = seen

    stages(path, count)
    return found


@pytest.fixture(autouse=True)
def uncollected() -> Any:
    """Finalizers that run now and then are no work of a stage."""
    gc.disable()
    yield
    gc.enable()


def grows(
    kind: str, sizes: tuple[int, ...], measure: Callable[[Path], dict[str, int]], folder: Path
) -> None:
    found = []
    for size in (20, *sizes):  # the first fills caches
        path = folder / f"{kind}_{size}.yaml"
        path.write_text(spec(kind, size))
        found.append(measure(path))
    for small, large in pairwise(found[1:]):
        for stage, count in large.items():
            least = max(small[stage], FLOOR)
            assert count <= MOST * least, (
                f"{kind}, {stage}: {small[stage]} becomes {count} for twice the nodes"
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(10)
def test_calls_grow_linearly(kind: str, tmp_path: Path) -> None:
    grows(kind, (150, 300, 600), calls, tmp_path)


@pytest.mark.parametrize("kind", ["fan", "residual"])
@pytest.mark.sampled(4)
@pytest.mark.long
def test_lines_grow_linearly(kind: str, tmp_path: Path) -> None:
    grows(kind, (80, 160), lines, tmp_path)


def test_what_is_quadratic_would_be_seen(tmp_path: Path) -> None:
    """The test itself can fail."""

    def quadratic(path: Path) -> dict[str, int]:
        nodes = path.read_text().count("\n")
        return {
            "all": work.calls(lambda: [len(range(i)) for i in range(nodes) for _ in range(nodes)])
        }

    with pytest.raises(AssertionError, match="for twice the nodes"):
        grows("chain", (250, 500), quadratic, tmp_path)
