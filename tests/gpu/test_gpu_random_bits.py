"""Random bits on a GPU, of sizes that are open: those of the elements' numbers."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_harness import SMALL, lowered, param, run

from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType


@pytest.mark.parametrize(("dtype", "more"), [(DType.U32, 3), (DType.U64, 1), (DType.U32, 4)])
def test_open_sizes(dtype: DType, more: int) -> None:
    size = symbol("n", 0, 900, 64)
    state, x = param("state", (3,), DType.U64), param("x", (size,))
    new, bits = build.results(Node.of(RngBits("philox", (size, more), dtype), state))
    program = lowered(new, bits, build.mul(x, 2.0), target=SMALL).program
    words = np.array([77, 2**64 - 2, 5], np.uint64)
    for count in (0, 1, 5, 131, 900):
        feeds = {"state": words, "x": np.zeros(count, np.float32)}
        found = run(program, feeds, {"n": count})
        wanted = RngBits("philox", (count, more), dtype).evaluate(words)
        np.testing.assert_array_equal(found["o0"], wanted[0])
        np.testing.assert_array_equal(found["o1"], wanted[1])
