"""Convolutions computed by a library: the description of one convolution.

A schedule makes a `Call` named `CONVOLUTION`; its one attribute, `convolution`, has all that a
backend needs. The call's arguments are x, the kernel, the addend and the bias if present, the
result, and the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from xlac_sdk.dims import Dim, evaluate, static
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.product import activated
from xlac_sdk.libraries.strided import Strided

CONVOLUTION = "convolution"  # the name of the call

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Convolution:
    """`result = activation(x * kernel + addend + bias)`, without flipping the kernel.

    x is (batch, channels, spatial…), the kernel (filters, channels of a group, spatial…), result
    and addend (batch, filters, spatial…); the bias has a number for each filter, f32 or of the
    result's type. Computed in f32, rounded once to the result's type.
    """

    x: Strided
    kernel: Strided
    result: Strided
    strides: Ints
    low: Ints
    high: Ints
    dilation: Ints
    groups: int = 1
    addend: Strided | None = None
    bias: DType | None = None
    bias_offset: Dim = 0
    activation: str = ""
    workspace: int = 0
    # f32 operands may be rounded to tf32, and algorithms with transformed operands may be used
    fast: bool = False

    def at(self, sizes: Mapping[str, int]) -> Convolution:
        """With symbolic sizes replaced by values."""
        return replace(
            self,
            x=self.x.at(sizes),
            kernel=self.kernel.at(sizes),
            result=self.result.at(sizes),
            addend=self.addend and self.addend.at(sizes),
            bias_offset=evaluate(self.bias_offset, sizes),
        )

    def compute(self, x: NDArray[Any], kernel: NDArray[Any], *others: NDArray[Any]) -> None:
        """The reference implementation of a call with known sizes, in float64 until the final
        rounding.
        """
        if self.result.empty:
            return
        rest, rank = list(others), len(self.strides)
        (start,) = static((self.bias_offset,))
        with np.errstate(all="ignore"):
            total = self._sums(self.x.read(x), self.kernel.read(kernel))
            if self.addend is not None:
                total = total + self.addend.read(rest.pop(0))
            if self.bias is not None:
                bias = rest.pop(0).reshape(-1)[start : start + total.shape[1]].astype(np.float64)
                total = total + bias.reshape(-1, *(1,) * rank)
            out = self.result.view(rest.pop(0))
            out[...] = activated(self.activation, total).astype(out.dtype)

    def _sums(self, x: NDArray[np.float64], kernel: NDArray[np.float64]) -> NDArray[np.float64]:
        rank = len(self.strides)
        padded = np.pad(x, [(0, 0), (0, 0), *zip(self.low, self.high, strict=True)])
        reach = tuple(
            (taps - 1) * step + 1
            for taps, step in zip(kernel.shape[2:], self.dilation, strict=True)
        )
        seen = sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
        every = slice(None)
        seen = seen[
            (
                every,
                every,
                *(slice(None, None, s) for s in self.strides),
                *(slice(None, None, d) for d in self.dilation),
            )
        ]
        summed = [1, *range(2 + rank, 2 + 2 * rank)], [1, *range(2, 2 + rank)]
        parts = zip(np.split(seen, self.groups, 1), np.split(kernel, self.groups, 0), strict=True)
        return np.concatenate([np.moveaxis(np.tensordot(a, b, summed), -1, 1) for a, b in parts], 1)
