"""The layout of a tensor in an argument of a call: extents and strides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from xlac_sdk.dims import Dim, Shape, evaluate, static
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class Strided:
    """A strided tensor; strides and the offset of the first element are in elements."""

    dtype: DType
    extents: Shape
    strides: Shape
    offset: Dim = 0

    def at(self, sizes: Mapping[str, int]) -> Strided:
        """With symbolic sizes replaced by values."""
        extents, strides = (
            tuple(evaluate(size, sizes) for size in shape) for shape in (self.extents, self.strides)
        )
        return Strided(self.dtype, extents, strides, evaluate(self.offset, sizes))

    @property
    def empty(self) -> bool:
        """Whether it has no elements, for known sizes."""
        return 0 in self.extents

    def view(self, argument: NDArray[Any]) -> NDArray[Any]:
        """The tensor as a view of the argument's memory, for known sizes."""
        (offset,) = static((self.offset,))
        memory = argument.reshape(-1)[offset:]
        return as_strided(
            memory,
            static(self.extents),
            tuple(step * memory.itemsize for step in static(self.strides)),
        )

    def read(self, argument: NDArray[Any]) -> NDArray[np.float64]:
        """A copy in float64."""
        return self.view(argument).astype(np.float64)
