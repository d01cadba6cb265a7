"""Random numbers: one stream for a graph, from a seed that is an input.

The seed is the state of Philox-4x32-10, u64[3]: a key and a 128-bit counter. Each operation
consumes bits and passes the advanced state on, so that no two operations draw the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

SEED = "seed"


class Randomness:
    """The stream of one graph; the input `seed` exists only if something is drawn."""

    def __init__(self, name: str = SEED) -> None:
        self.name = name
        self.seed: Node | None = None
        self._state: Node | None = None

    @property
    def drawn(self) -> Node | None:
        """The state after what was drawn so far; None before."""
        return self._state

    def bits(self, shape: Sequence[Dim], dtype: DType = DType.U32) -> Node:
        """Uniform unsigned integers."""
        bits = Node.of(RngBits("philox", tuple(shape), dtype), self.state())
        self._state, drawn = build.results(bits)
        return drawn

    def state(self) -> Node:
        """The state of the stream, from which the next bits come."""
        if self._state is None:
            self.seed = self._state = build.param(
                self.name, DType.U64, (3,), origin=Origin(self.name)
            )
        return self._state

    @contextmanager
    def begun_at(self, state: Node) -> Iterator[None]:
        """Draws from another state meanwhile; the stream itself does not advance."""
        before, self._state = self._state, state
        try:
            yield
        finally:
            self._state = before

    def uniform(self, shape: Sequence[Dim], dtype: DType) -> Node:
        """Numbers in [0, 1): multiples of 2^-24, of 2^-53 for f64, or of the type's epsilon for
        16-bit floats.
        """
        digits = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}[dtype]
        wide = DType.U64 if dtype is DType.F64 else DType.U32
        kept = build.apply1("shr", self.bits(shape, wide), build.constant(wide.bits - digits, wide))
        return build.cast(build.mul(build.cast(kept, dtype.compute), 2.0**-digits), dtype)

    def normal(self, shape: Sequence[Dim], dtype: DType) -> Node:
        """Standard normal numbers, by the Box-Muller transform: sqrt(-2 log u) cos(2 pi v)."""
        wide = dtype.compute
        radius = build.sqrt(build.mul(build.log(build.sub(1.0, self.uniform(shape, wide))), -2.0))
        angle = build.mul(self.uniform(shape, wide), 2 * math.pi)
        return build.cast(build.mul(radius, build.apply1("cos", angle)), dtype)
