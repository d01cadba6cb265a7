"""reduce_precision beside XLA: every number of bits, every type, NaN of every kind, infinities and
subnormals.
"""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from xlac.api import compile
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType

BITS = {DType.F16: (5, 10), DType.BF16: (8, 7), DType.F32: (8, 23), DType.F64: (11, 52)}
"""Of the exponent and of the mantissa."""


def patterns(dtype: DType) -> np.ndarray:
    """Bits by chance, and those next to zero, infinity and NaN, both signs."""
    exponent, mantissa = BITS[dtype]
    whole = np.dtype(f"u{dtype.nbytes}")
    top, infinite = 1 << (dtype.bits - 1), ((1 << exponent) - 1) << mantissa
    chosen = [
        0,
        1,
        2,
        (1 << mantissa) - 1,
        1 << mantissa,
        infinite - 1,
        infinite,
        infinite + 1,
        infinite | 1 << (mantissa - 1),
        top - 1,
    ]
    bits = np.frombuffer(np.random.default_rng(0).bytes(300 * dtype.nbytes), whole)
    return np.concatenate([np.array([*chosen, *(c | top for c in chosen)], whole), bits])


def pairs(dtype: DType, part: int) -> list[tuple[int, int]]:
    exponent, mantissa = BITS[dtype]
    return [(e, m) for e in range(1, exponent + 1) for m in range(mantissa + 1)][part::8]


@pytest.mark.parametrize("target", ["numpy", "cpu", "c"])
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("dtype", BITS, ids=str)
@pytest.mark.sampled(48)
def test_every_pair_of_bits_agrees_with_xla(dtype: DType, part: int, target: str) -> None:
    bits = patterns(dtype)
    x = bits.view(dtype.numpy)
    chosen = pairs(dtype, part)
    node = build.param("x", dtype, x.shape)
    outputs = {
        f"y{e}_{m}": build.apply1("reduce_precision", node, exponent_bits=e, mantissa_bits=m)
        for e, m in chosen
    }
    graph = Graph("precision", (node,), outputs)
    if target == "numpy":
        found = interpret(graph, {"x": x}, {})
    else:
        found = {name: np.empty(x.shape, dtype.numpy) for name in outputs}
        compile(Model(graph, {}), target=target).run({"x": x}, found)
    with jax.enable_x64(True):
        wanted = jax.jit(lambda x: [jax.lax.reduce_precision(x, e, m) for e, m in chosen])(x)
    for (name, got), want in zip(found.items(), map(np.asarray, wanted), strict=True):
        with np.errstate(invalid="ignore"):  # NaN that signals
            nan = np.isnan(want.astype(np.float64)) & np.isnan(np.asarray(got).astype(np.float64))
        wrong = ~nan & (np.asarray(got).view(bits.dtype) != want.view(bits.dtype))
        assert not wrong.any(), (
            f"{name}: {list(zip(map(hex, bits[wrong]), got[wrong], want[wrong], strict=True))[:5]}"
        )
