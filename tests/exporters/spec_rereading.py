"""Models written as specs and read again: the same graph, and the same sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from alike import equal

from xlac.driver import lower, specialized
from xlac.exporters.spec import write
from xlac.ir.graph import Graph, Node
from xlac.ir.text import show
from xlac.model import Model
from xlac.ops import build
from xlac.spec.load import load
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

F32, I32, BOOL = DType.F32, DType.I32, DType.BOOL


def again(model: Model, folder: Path) -> Model:
    """The model, written and read."""
    folder.mkdir(exist_ok=True)
    write(model, folder / "again.yaml")
    found = load(folder / "again.yaml")
    assert (
        found.doc == model.doc and found.precision == model.precision and found.state == model.state
    )
    for name, array in model.weights.items():
        if name in found.weights:
            assert np.asarray(found.weights[name]).tobytes() == np.asarray(array).tobytes(), name
    return found


def same(model: Model, folder: Path) -> Model:
    """The model as it is read again, which must have the same graph; what had no name has one then,
    and keeps it.
    """
    found = again(model, folder)
    equal(model.graph, found.graph)
    assert show(again(found, folder).graph) == show(found.graph)
    return found


def sources(model: Model, target: str) -> dict[str, str]:
    backend = find(target)
    facts = backend.target(Request())
    return dict(backend.emit(lower(specialized(model), facts).program, facts))


def bare(source: str) -> str:
    return re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL)


def of(outputs: Mapping[str, Node], *inputs: Node, **more: object) -> Model:
    return Model(Graph("made", tuple(inputs), dict(outputs)), {}, **more)  # type: ignore[arg-type]


def vector(name: str, dtype: DType = F32, *shape: int) -> Node:
    return build.param(name, dtype, shape or (4,))
