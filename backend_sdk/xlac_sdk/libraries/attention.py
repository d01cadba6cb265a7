"""Attention computed by a library: a target's description of its library, and the description of
one attention.

A schedule makes a `Call` named `ATTENTION`; its one attribute, `attention`, has all that a backend
needs. The call's arguments are queries, keys, values, the mask if there is one, the result, and the
workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.strided import Strided

ATTENTION = "fused_attention"  # the name of the call


@dataclass(frozen=True, slots=True)
class Attentions:
    """The attentions of one type that a target's library supports, and the sizes from which it
    pays.
    """

    library: str  # its name in messages
    operands: DType
    widest: int  # widths must be multiples of 8, up to this
    least: int  # the fewest rows that share keys: queries of all heads that share a key head
    flops: int
    workspace: int  # bytes of temporary memory

    def to_json(self) -> list[Any]:
        """As JSON, the inverse of `from_json`."""
        return [
            self.library,
            str(self.operands),
            self.widest,
            self.least,
            self.flops,
            self.workspace,
        ]

    @staticmethod
    def from_json(facts: list[Any]) -> Attentions:
        """The inverse of `to_json`. Raises TypeError or ValueError for anything else."""
        library, operands, *numbers = facts
        return Attentions(library, DType(operands), *numbers)


@dataclass(frozen=True, slots=True)
class Attention:
    """`result = softmax(queries keysᵀ * scale + mask) values` for each head.

    All four are (batch, heads, time, width); there may be fewer key/value heads, each shared by
    several query heads. The mask is (batch, heads, time, keys), of the operands' type; its axes of
    size 1 broadcast. If `causal`, the last query sees every key, the one before it one less. Scores
    and sums are f32, weights may be rounded to the operands' type.
    """

    queries: Strided
    keys: Strided
    values: Strided
    result: Strided
    scale: float
    causal: bool = False
    mask: Strided | None = None
    workspace: int = 0

    def at(self, sizes: Mapping[str, int]) -> Attention:
        """With symbolic sizes replaced by values."""
        return replace(
            self,
            queries=self.queries.at(sizes),
            keys=self.keys.at(sizes),
            values=self.values.at(sizes),
            result=self.result.at(sizes),
            mask=self.mask and self.mask.at(sizes),
        )

    def compute(
        self, queries: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], *others: NDArray[Any]
    ) -> None:
        """The reference implementation of a call with known sizes, in float64 until the final
        rounding.
        """
        if self.result.empty:
            return
        rest = list(others)
        q, k, v = self.queries.read(queries), self.keys.read(keys), self.values.read(values)
        k, v = (np.repeat(side, q.shape[1] // side.shape[1], 1) for side in (k, v))
        with np.errstate(all="ignore"):
            scores = np.matmul(q, k.swapaxes(2, 3)) * self.scale
            if self.mask is not None:
                scores = scores + self.mask.read(rest.pop(0))
            if self.causal:
                time, length = scores.shape[2:]
                scores = np.where(np.tri(time, length, length - time, dtype=bool), scores, -np.inf)
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            out = self.result.view(rest.pop(0))
            out[...] = np.matmul(powers / powers.sum(-1, keepdims=True), v).astype(out.dtype)
