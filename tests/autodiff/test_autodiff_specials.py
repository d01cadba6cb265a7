"""Elementwise operations where they have corners, poles and ends: the way back says what the way
forwards does, and a cotangent of 0 stays 0.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from differences import applied, evaluated

from xlac.autodiff.gradient import linearize
from xlac.ir.op import OPS, UNDEFINED, Sample
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.scalar.formula import Formula
from xlac.ops.scalar.primitive import Scalar
from xlac_sdk.dtypes import DType

POINTS = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 8.0, 1e300, -1e300, 1e-300, np.inf, -np.inf, np.nan]
OTHERS = set("bitcast reduce_precision stop_gradient shl shr and or xor not popcnt clz".split())


def elementwise() -> list[str]:
    """Operations on floats that have derivatives."""
    kinds = (Scalar, Formula)
    return [
        name
        for name, op in sorted(OPS.items())
        if issubclass(op, kinds) and UNDEFINED not in op.derivatives and name not in OTHERS
    ]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", elementwise())
def test_backwards_is_forwards(name: str) -> None:
    count = len(OPS[name].operands)
    grid = np.array(list(itertools.product(POINTS, repeat=count))).T
    line = Type(DType.F64, (grid.shape[1],))
    try:
        params, (output,) = applied(name, Sample((line,) * count, {}))
    except ValueError:
        pytest.skip("takes no floats")
    if not output.type.dtype.is_float:
        pytest.skip("gives no floats")
    found = linearize([output], params)
    cotangent = build.param("w", DType.F64, output.shape)
    back = found.transposed([cotangent])
    values = {f"x{n}": row for n, row in enumerate(grid)}
    ones, zeros = np.ones(grid.shape[1]), np.zeros(grid.shape[1])
    slopes = evaluated([*params, cotangent], back, values | {"w": ones})
    nothing = evaluated([*params, cotangent], back, values | {"w": zeros})
    for n, slope in enumerate(slopes):
        moves = {f"t{k}": ones if k == n else zeros for k in range(count)}
        (change,) = evaluated([*params, *found.sources], found.tangents, values | moves)
        change = np.broadcast_to(change, ones.shape)
        alone = np.isfinite(
            change
        )  # where the other operands, which do not change, have no infinite slopes
        slope, none = (np.broadcast_to(a, alone.shape)[alone] for a in (slope, nothing[n]))
        np.testing.assert_allclose(slope, change[alone], 1e-13, err_msg=f"by operand {n}")
        assert not none.any(), f"by operand {n}"
