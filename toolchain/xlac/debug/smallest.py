"""Reduces a fault to the smallest spec that shows it, written as YAML with its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from xlac.debug.compare import ComparedModel
from xlac.debug.reduce import FailingCase, reduce
from xlac.exporters.spec import text, write
from xlac.ir.graph import Graph, Node
from xlac.ir.text import show
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac_sdk.source import UnsupportedError

Tell = Callable[[str], None]


def smallest(subject: ComparedModel, attempts: int, tell: Tell = lambda line: None) -> FailingCase:
    """The smallest case, found by greedy steps, that fails in the same way as the subject, which
    must fail. States become inputs.
    """
    start = FailingCase(
        without_state(subject.model.graph), dict(subject.given), subject.model.weights
    )
    first = subject.on(start.graph, start.inputs, start.weights).outcome()
    return reduce(
        start,
        lambda c: subject.on(c.graph, c.inputs, c.weights).outcome().kind == first.kind,
        tell,
        attempts,
    )


def without_state(graph: Graph) -> Graph:
    """The graph with inputs in place of states."""

    def changed(node: Node) -> Node:
        if isinstance(node.op, Param) and node.op.kind == "state":
            return replace(node, op=replace(node.op, kind="input"))
        return node

    stateless = graph.rewrite(changed)
    return Graph(stateless.name, tuple(map(changed, stateless.inputs)), stateless.outputs)


def text_of(case: FailingCase, precision: str) -> str:
    """A case as the text of a spec; as the text of a graph where a spec cannot express it."""
    try:
        return text(Model(case.graph, case.weights, precision=precision))
    except UnsupportedError:
        return show(case.graph)


def written(case: FailingCase, precision: str, file: Path) -> list[Path]:
    """Writes a case as NAME.yaml, with a file of weights if there are any, and NAME.npz; as
    NAME.graph where a spec cannot express it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    model = Model(case.graph, case.weights, precision=precision)
    arrays = file.with_suffix(".npz")
    try:
        files = write(model, file.with_suffix(".yaml"))
    except UnsupportedError:
        files = [file.with_suffix(".graph")]
        files[0].write_text(show(case.graph), encoding="utf-8")
    np.savez(arrays, allow_pickle=False, **case.inputs)
    return [*files, arrays]
