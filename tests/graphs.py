"""Random graphs whose values stay tame, so that what two ways of computing them give can be
compared.

`cases()` is a hypothesis strategy; `make(Random(seed))` gives one without hypothesis. Values are
bounded, functions are applied where they are smooth, and comparisons are made of values that are
exact (inputs and integers), so that a difference in the last bits stays one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import numpy as np
from graph_elementwise import (
    binary,
    composite,
    convert,
    integer,
    logic,
    normalised,
    reduced,
    running,
    unary,
)
from graph_maker import Case, Maker, Step
from graph_products import contraction, convolution, looped, pooled
from graph_views import taken, views
from hypothesis import strategies as st

from xlac.api import compile
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.model import Model, SaidPlace
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

RELATIVE = {DType.F64: 1e-9, DType.F32: 2e-4, DType.F16: 4e-2, DType.BF16: 2.5e-1}
"""How far a whole graph may differ from NumPy, by its coarsest type."""


def cases(nodes: int = 10) -> st.SearchStrategy[Case]:
    """Graphs of about so many steps; a step is one to a dozen nodes."""
    return st.randoms(use_true_random=False).map(lambda random: make(random, nodes))


def make(random: Random, nodes: int = 10, more: tuple[Step, ...] = ()) -> Case:
    """One random graph, of `more` kinds of steps than usual."""
    return Maker(random, (*STEPS, *more)).case(random.randint(1, nodes))


STEPS: tuple[Step, ...] = (
    *(unary, unary, unary, binary, binary, binary, integer, logic, convert),
    *(views, views, views, views, reduced, reduced, normalised, composite),
    *(contraction, contraction, convolution, pooled, running, taken, looped),
)
"""Each as often as it is drawn."""


def tolerance(dtype: DType) -> float:
    """How far two ways of computing a value may differ, in units of the largest value that may
    occur.
    """
    return {DType.F64: 1e-11, DType.F32: 2e-5, DType.F16: 3e-2, DType.BF16: 0.2}.get(dtype, 0.0)


def _named(graph: Graph) -> Graph:
    """The graph with a path for every node."""
    numbers = count()

    def name(node: Node) -> Node:
        if isinstance(node.op, Param):
            return node
        return replace(node, origin=Origin(f"n{next(numbers)}"))

    return graph.rewrite(name)


def drawn_model(case: Case, generator: Random, targets: Sequence[str]) -> Model:
    """The graph as a model, with nodes on the targets, in runs of random lengths."""
    graph, places = _named(case.graph), []
    share = generator.choice([0.1, 0.5, 1.0])
    target = targets[0]
    for node in graph.order:
        if generator.random() < share:
            target = generator.choice(targets)
        if node.name.startswith("n") and node.inputs and node.op.mnemonic != "pick":
            places.append(SaidPlace(node.name, (target,)))
    return Model(graph, case.weights, place=tuple(places))


def results(program: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs of a call by name."""
    given = program(**inputs)
    return given if isinstance(given, dict) else {program.outputs[0]: given}


def assert_like_numpy(case: Case, program: Any, what: str) -> None:
    """Asserts that a program of the graph gives what NumPy does, within the rounding of its
    coarsest type.
    """
    expected = interpret(case.graph, case.inputs, case.weights, float64=True)
    types = [t.dtype for n in case.graph.nodes() for t in n.results]
    coarsest = max((RELATIVE[dtype] for dtype in types if dtype.is_float), default=0.0)
    found = results(program, case.inputs)
    for name, want in expected.items():
        got = np.asarray(found[name])
        scale = max(1.0, float(np.abs(want.astype(np.float64)).max(initial=0.0)))
        near = DType.of(got.dtype).is_float
        np.testing.assert_allclose(
            got.astype(np.float64) / scale,
            want.astype(np.float64) / scale,
            rtol=0,
            atol=coarsest if near else 0.0,
            err_msg=f"{what}: {name}",
        )


def assert_stages_like_numpy(
    seed: int, targets: Sequence[str], *, more: Sequence[Step] = ()
) -> None:
    """Asserts that calls of a random graph, whose nodes are in runs on the targets, give what NumPy
    does.
    """
    generator = Random(seed)
    case = make(generator, more=more)
    model = compile(drawn_model(case, generator, targets))
    for call in range(2):
        assert_like_numpy(case, model, f"seed {seed}, call {call}")
