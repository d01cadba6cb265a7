"""Attention that a library computes whole: what a target says of its library, and one attention
said in full.

A schedule makes a `Call` named `ATTENTION`; its one attribute, `attention`, says all that a backend
needs. The call's arguments are queries, keys, values, the mask where there is one, the result, and
the workspace.
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
    """Attentions of one type that a target's library computes, and from which size on that is worth
    it.
    """

    library: str  # its name, for people
    operands: DType
    widest: int  # heads are a multiple of 8 wide, and no wider than this
    least: int  # rows that share keys: queries of all the heads that have them in common
    flops: int
    workspace: int  # bytes that it may use while it runs

    def to_json(self) -> list[Any]:
        """As JSON: `Attentions.from_json` makes the same of it."""
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
        """Raises TypeError or ValueError for anything else than what `to_json` gives."""
        library, operands, *numbers = facts
        return Attentions(library, DType(operands), *numbers)


@dataclass(frozen=True, slots=True)
class Attention:
    """`result = softmax(queries keys' * scale + mask) values` for each head.

    All four are (batch, heads, time, width); there may be fewer heads of keys and values, each for
    as many heads of queries. The mask is (batch, heads, time, keys), of the operands' type, its
    axes of one element for all. Where `causal`, the last query sees every key, the one before it
    one less. Scores and sums are f32, weights may be rounded to the operands' type.
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
        """For one set of sizes."""
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
        """What a call with these arguments does, for sizes that are known, in float64 until it is
        rounded.
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
