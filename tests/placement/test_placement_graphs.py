"""Random graphs, every node of which is on a target of its own: results are those of NumPy."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from random import Random

import numpy as np
import pytest
from graph_seams import seams
from graphs import Case, make
from placed import results

from xlac.api import compile
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.model import Model, SaidPlace
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

RELATIVE = {DType.F64: 1e-9, DType.F32: 2e-4, DType.F16: 4e-2, DType.BF16: 2.5e-1}
BATCH = 5  # graphs of one test


def named(graph: Graph) -> Graph:
    """The graph with a path for every node."""
    numbers = count()

    def name(node: Node) -> Node:
        if isinstance(node.op, Param):
            return node
        return replace(node, origin=Origin(f"n{next(numbers)}"))

    return graph.rewrite(name)


def drawn(case: Case, generator: Random) -> Model:
    """The graph as a model, with nodes on three targets, in runs of random lengths."""
    graph, places = named(case.graph), []
    share = generator.choice([0.1, 0.5, 1.0])
    target = "cpu"
    for node in graph.order:
        if generator.random() < share:
            target = generator.choice(["cpu", "c", "reference"])
        if node.name.startswith("n") and node.inputs and node.op.mnemonic != "pick":
            places.append(SaidPlace(node.name, (target,)))
    return Model(graph, case.weights, place=tuple(places))


@pytest.mark.sampled(20)
@pytest.mark.parametrize("batch", range(40))
def test_random_graphs_in_random_stages(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        generator = Random(seed)
        case = make(generator, more=(seams,) * 3)
        expected = interpret(case.graph, case.inputs, case.weights, float64=True)
        coarsest = max(
            (RELATIVE[t.dtype] for n in case.graph.nodes() for t in n.results if t.dtype.is_float),
            default=0.0,
        )
        found = results(compile(drawn(case, generator)), case.inputs)
        for name, want in expected.items():
            got = np.asarray(found[name])
            scale = max(1.0, float(np.abs(want.astype(np.float64)).max(initial=0.0)))
            near = DType.of(got.dtype).is_float
            np.testing.assert_allclose(
                got.astype(np.float64) / scale,
                want.astype(np.float64) / scale,
                rtol=0,
                atol=coarsest if near else 0.0,
                err_msg=f"seed {seed}: {name}",
            )
