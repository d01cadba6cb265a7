"""What many arrays that are joined cost to lower grows as their number does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlac.codegen.core.access_analysis import Survey
from xlac.codegen.core.elements import Elements
from xlac.driver import executable, lower
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request


def joined(count: int) -> Model:
    xs = [build.param(f"x{n}", DType.F32, (4, 3)) for n in range(count)]
    return Model(Graph("joined", tuple(xs), {"y": build.concat(xs, 1)}), {})


def test_lookups_of_operands_are_not_as_many_as_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def counted(kind: type, name: str) -> None:
        method = getattr(kind, name)

        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            return method(*args, **named)

        monkeypatch.setattr(kind, name, call)

    counted(Survey, "exact")
    counted(Elements, "parameter")
    found = []
    for count in (20, 80):
        calls = 0
        lower(joined(count), find("cpu").target(Request()))
        found.append(calls)
    assert found[1] <= 6 * found[0], found


def test_pieces_are_where_they_belong() -> None:
    made = joined(70)
    arrays = [np.full((4, 3), n, np.float32) for n in range(70)]
    found = executable(lower(made, find("cpu").target(Request())), find("cpu"))(*arrays)
    np.testing.assert_array_equal(found, np.concatenate(arrays, 1))
