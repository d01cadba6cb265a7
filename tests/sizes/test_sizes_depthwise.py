"""Depthwise convolutions of maps whose sizes a call chooses are computed in vectors."""

from __future__ import annotations

import numpy as np
import pytest
from open_ops import difference

from xlac.driver import executable, lower
from xlac.ir.dims import Sym, Symbol, static
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param
from xlac.passes.specialize import substituted
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.programs.program import Launch
from xlac_sdk.target import Request, Target

CHANNELS = 20
OPEN = {name: Symbol(name, 0, 40, 20) for name in "hw"}
# open axes, whether channels are last in x, taps, stride, padding, dilation
CASES = {
    "both": ("hw", True, (3, 3), 1, 1, 1),
    "strided": ("hw", True, (3, 3), 2, 1, 1),
    "rows": ("h", True, (5, 3), 1, 2, 1),
    "columns": ("w", True, (3, 3), 1, 2, 2),
    "line": ("w", True, (7,), 1, 3, 1),
    "maps": ("hw", False, (3, 3), 2, 1, 1),
}


def depthwise(name: str) -> Model:
    """A convolution with a bias and relu."""
    axes, last, taps, step, pad, apart = CASES[name]
    rank = len(taps)
    sizes = [Sym((((OPEN[a],), 1),)) if a in axes else 9 for a in "hw"[-rank:]]
    space, letters = tuple(range(1, rank + 1)), "HW"[-rank:]
    shape = (1, *sizes, CHANNELS) if last else (1, CHANNELS, *sizes)
    given = Node.of(Param("x", Type(DType.F32, shape)))
    x = given if last else build.transpose(given, (0, *(a + 1 for a in space), 1))
    shapes: dict[str, tuple[int, ...]] = {"k": (*taps, 1, CHANNELS), "b": (CHANNELS,)}
    kernel, bias = (
        Node.of(Param(n, Type(DType.F32, size), "weight")) for n, size in shapes.items()
    )
    around, ones = (pad,) * rank, (1,) * rank
    layout = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    op = Conv(layout, (step,) * rank, around, around, ones, (apart,) * rank, CHANNELS)
    y = build.maximum(build.add(Node.of(op, x, kernel), bias), 0.0)
    draw = np.random.default_rng(0)
    weights = {n: draw.normal(size=size).astype(np.float32) for n, size in shapes.items()}
    return Model(Graph("g", (given,), {"y": y}), weights, {a: OPEN[a] for a in axes})


@pytest.mark.parametrize("name", CASES)
def test_open_maps_are_computed_in_vectors(name: str) -> None:
    target = Target("avx512", 64, 32, masked=True, gathers=True, fma=True)
    for step in lower(depthwise(name), target).program.steps:
        assert not isinstance(step, Launch) or "var c: f32 =" not in show(step.kernel)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(6)
def test_maps_of_any_size_agree(name: str, backend: str) -> None:
    model, found = depthwise(name), find(backend)
    program = executable(lower(model, found.target(Request())), found)
    for sizes in ((1, 1), (2, 5), (7, 13), (20, 20), (0, 3), (33, 40)):
        at = dict(zip("hw", sizes, strict=True))
        graph = substituted(model.graph, {n: at[n] for n in model.dims})
        draw = np.random.default_rng(sum(sizes))
        given = {"x": draw.normal(size=static(graph.inputs[0].shape)).astype(np.float32)}
        want = interpret(graph, given, model.weights)["y"]
        got = program(**given)
        problem = difference(np.asarray(got), want)
        assert not problem, (sizes, problem)
