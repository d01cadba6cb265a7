"""A small model of transformers by `torch.compile(backend="xlac")`, judged beside eager PyTorch:
its error against float64 is at most twice eager's own.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tests.pytorch.architectures.small_models import Positional, build
from xlac.integrations.torch.fallback import FallbackWarning

BAR = 2.0  # of eager's error
ROUNDING = 2.0**-24  # of a result of f32, relative: the least that eager's error counts as


class Wide(TorchFunctionMode):
    """Computes in f64 what a model asks to be computed in f32 whatever its own type is."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        named = {name: _widened(value) for name, value in (kwargs or {}).items()}
        return func(*map(_widened, args), **named)


def _widened(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def exact(model: Positional, args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What a model gives in f64. It is f32 again afterwards."""
    wide = [a.double() if a.is_floating_point() else a for a in args]
    if hasattr(model.inner, "set_experts_implementation"):
        model.inner.set_experts_implementation("eager")  # PyTorch groups products of f32 only
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), Wide():
            return [result.double() for result in model.double()(*wide)]
    finally:
        torch.set_default_dtype(torch.float32)
        model.float()


def error(found: torch.Tensor, meant: torch.Tensor) -> float:
    """The root of the mean squared difference."""
    return float((found.double() - meant).square().mean().sqrt())


def above(
    ours: Sequence[torch.Tensor], eager: Sequence[torch.Tensor], meant: Sequence[torch.Tensor]
) -> tuple[list[str], float]:
    """What is worse than the bar, and the largest quotient of errors."""
    if [x.shape for x in ours] != [x.shape for x in eager]:
        return [f"shapes {[tuple(x.shape) for x in ours]}"], float("inf")
    problems, most = [], 0.0
    for number, (mine, theirs, right) in enumerate(zip(ours, eager, meant, strict=True)):
        if mine.dtype != theirs.dtype or not bool(torch.isfinite(right).all()):
            problems.append(f"result {number}: {mine.dtype}, or no numbers to compare")
            continue
        least = ROUNDING * float(right.square().mean().sqrt())
        own, other = error(mine, right), error(theirs, right)
        most = max(most, own / max(other, least))
        if not own <= BAR * max(other, least):
            problems.append(f"result {number}: error {own:.2e}, eager's {other:.2e}")
    return problems, most


def judged(compiled: Callable[[], Sequence[torch.Tensor]], name: str) -> dict[str, Any]:
    """The verdict on a model: "right" or "wrong", with the graphs that PyTorch breaks it into."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = compiled()
    counters = torch._dynamo.utils.counters
    graphs, breaks = counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
    fallen = [str(one.message) for one in caught if issubclass(one.category, FallbackWarning)]
    model, args = build(name)
    with torch.no_grad():
        eager = model(*args)
    problems, most = above(ours, eager, exact(model, args))
    problems += [f"fallback: {text[:300]}" for text in fallen]
    if not graphs:
        problems.append("nothing was compiled")
    text = f"{most:.2f} of eager's error, {graphs} graphs, {breaks} breaks"
    return {
        "verdict": "wrong" if problems else "right",
        "why": "",
        "text": "; ".join([text, *problems]),
    }


def verdict(name: str) -> dict[str, Any]:
    """The verdict on a model by its type; "crash" where compiling or calling it raises."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    try:
        model, args = build(name)
    except Exception as error:
        return {"verdict": "crash", "why": "building", "text": str(error)[:1000]}

    def compiled() -> Sequence[torch.Tensor]:
        with torch.no_grad():
            found: Sequence[torch.Tensor] = torch.compile(
                model, backend="xlac", options={"threads": 1}
            )(*args)
            return found

    try:
        return judged(compiled, name)
    except Exception as error:
        return {"verdict": "crash", "why": type(error).__name__, "text": str(error)[:1000]}
