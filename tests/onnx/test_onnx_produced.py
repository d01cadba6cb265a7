"""The ONNX importer makes exactly the operations that it declares: ONNX's own cases of every
operator, and a model for each operation that these lack.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx.backend.test.case.node import collect_testcases
from onnx_cases import single
from test_onnx_bounded_loops import written

from xlac.frontends.loader import load
from xlac.frontends.onnx.produced import PRODUCED
from xlac.frontends.onnx.registry import MICROSOFT
from xlac.frontends.produced import produced
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.model import Undecided
from xlac.ops.control.bounded import MOST
from xlac_sdk.source import XlacError


def test_every_declared_operation_is_made_and_no_other(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if not request.config.getoption("--all"):
        pytest.skip("with --all: ONNX takes seconds to make its cases")
    made: set[str] = set()
    for graph in (*graphs(), *others(tmp_path)):
        made |= produced(graph)
    assert sorted(made) == sorted(PRODUCED)


def graphs() -> Iterator[Graph]:
    """What can be imported of ONNX's cases; inputs that decide sizes are fixed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in collect_testcases(None) if case.model is not None]
    for case in cases:
        names = [info.name for info in case.model.graph.input]
        given = dict(zip(names, case.data_sets[0][0], strict=False))
        try:
            yield imported(case.model, given)
        except XlacError:
            continue  # tests/onnx/failures.yaml lists these


def others(folder: Path) -> Iterator[Graph]:
    """What ONNX has no cases of, or none that can be imported."""

    def ones(*shape: int) -> Array:
        return np.ones(shape, np.float32)

    yield load(single("Conv", [ones(1, 1, 4, 4, 4), ones(1, 1, 2, 2, 2)])).graph
    yield load(single("LayerNormalization", [ones(2, 3), ones(3), ones(3)])).graph
    yield load(single("MaxRoiPool", [ones(1, 1, 4, 4), ones(1, 5)], pooled_shape=[2, 2])).graph
    yield load(single("IsAllFinite", [ones(2)], domain=MICROSOFT)).graph
    yield load(written(folder, 20)).graph
    yield load(written(folder, MOST + 1)).graph
    yield load(written(folder, 20, stacked=True)).graph


def imported(model: Any, given: dict[str, Any]) -> Graph:
    """The graph of a model, with those inputs fixed that it asks for."""
    params: dict[str, Any] = {}
    while True:
        try:
            return load(model, params=params).graph
        except Undecided as undecided:
            asked = undecided.interface.values | undecided.interface.formed
            more = {name: given[name] for name in asked if name in given and name not in params}
            if not more:
                raise
            params |= more
