"""Random bits of open sizes: the same for every size, target and number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ir.dims import Dim, symbol
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.source import UnsupportedError

STATE = np.array([12345678901234567, 2**64 - 3, 7], np.uint64)
CASES = [
    ("philox", DType.U32, 3), ("philox", DType.U64, 5), ("philox", DType.U8, 1),
    ("threefry", DType.U64, 3), ("threefry", DType.U32, 0),
]  # fmt: skip


def model(algorithm: str, dtype: DType, more: int) -> Model:
    """Bits of as many rows as there are, and the state after."""
    rows = Symbol("rows", 0, 5000, 64)
    size: Dim = symbol("rows", 0, 5000, 64)
    x = build.param("x", DType.F32, (size,))
    state = build.param("state", DType.U64, (2 if algorithm == "threefry" else 3,))
    shape = (size, more) if more else (size,)
    new, bits = build.results(Node.of(RngBits(algorithm, shape, dtype), state))
    return Model(Graph("bits", (x, state), {"new": new, "bits": bits}), {}, {"rows": rows})


def wanted(algorithm: str, dtype: DType, shape: tuple[int, ...], state: Any) -> Any:
    return RngBits(algorithm, shape, dtype).evaluate(state)


@pytest.mark.parametrize(
    ("target", "options"),
    [("reference", {}), ("c", {}), ("cpu", {"threads": 1}), ("cpu", {"threads": 2})],
)
@pytest.mark.parametrize(("algorithm", "dtype", "more"), CASES)
def test_every_size_has_the_bits_of_its_elements(
    algorithm: str, dtype: DType, more: int, target: str, options: Any
) -> None:
    compiled = xlac.compile(model(algorithm, dtype, more), target, sizes="symbolic", **options)
    state = STATE[: 2 if algorithm == "threefry" else 3]
    rows = (0, 1, 2, 7, 64) if target == "reference" else (0, 1, 2, 3, 7, 64, 1001, 5000)
    longest = wanted(algorithm, dtype, (5000, more) if more else (5000,), state)[1]
    for count in rows:
        found = compiled(x=np.zeros(count, np.float32), state=state)
        new, bits = wanted(algorithm, dtype, (count, more) if more else (count,), state)
        np.testing.assert_array_equal(found["new"], new)
        np.testing.assert_array_equal(found["bits"], bits)
        np.testing.assert_array_equal(found["bits"], longest[:count])


def test_what_depends_on_sizes_is_said() -> None:
    """Threefry in 32 bits orders words by which sizes are even."""
    with pytest.raises(
        UnsupportedError, match="threefry orders its words by which sizes are even"
    ) as told:
        xlac.compile(model("threefry", DType.U32, 3), "c", sizes="symbolic")
    assert "philox" in str(told.value)
