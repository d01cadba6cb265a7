"""Nothing is written outside an output: every element type, every length of a tail, with guards
around.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType

GUARD = 64


@pytest.mark.parametrize("dtype", DType, ids=str)
@pytest.mark.sampled(6)
def test_tails_stay_inside(dtype: DType) -> None:
    sizes = [*range(1, 20), 31, 33, 63, 65]
    params = tuple(Node.of(Param(f"x{n}", Type(dtype, (n,)))) for n in sizes)
    outputs = {}
    for n, param in zip(sizes, params, strict=True):
        made = build.apply("not", param) if dtype is DType.BOOL else build.apply("relu", param)
        assert isinstance(made, Node)
        outputs[f"y{n}"] = made
    model = xlac.compile(Model(Graph("tails", params, outputs), {}))
    blocks, views = {}, {}
    for n in sizes:
        nbytes = n * dtype.nbytes
        blocks[n] = np.full(nbytes + 2 * GUARD, 0xA5, np.uint8)
        views[f"y{n}"] = blocks[n][GUARD : GUARD + nbytes].view(dtype.numpy)
    inputs: dict[str, Any] = {f"x{n}": np.ones(n, dtype.numpy) for n in sizes}
    model.executable.run(inputs, views)  # type: ignore[union-attr]
    for n, block in blocks.items():
        assert (block[:GUARD] == 0xA5).all() and (block[-GUARD:] == 0xA5).all(), f"{dtype}[{n}]"
        assert (views[f"y{n}"] == (dtype is not DType.BOOL)).all()
