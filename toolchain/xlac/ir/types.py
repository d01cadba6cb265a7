"""The type of a tensor: element type and shape."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.dims import Dim, Shape, size_hint, volume
from xlac_sdk.dtypes import DType

RANK = 32
"""The most axes that a tensor of a model may have: as many as any NumPy has."""


@dataclass(frozen=True, slots=True)
class Type:
    """Written `f32[batch, 64]`."""

    dtype: DType
    shape: Shape = ()

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return volume(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes at the sizes to optimise for."""
        return size_hint(self.size) * self.dtype.nbytes

    def with_shape(self, shape: Shape) -> Type:
        """The same dtype in another shape."""
        return Type(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> Type:
        """The same shape of another dtype."""
        return Type(dtype, self.shape)

    def fills(self, other: Type) -> bool:
        """Whether it takes the same memory as `other`, whose shape may be another: as many elements
        of one dtype.
        """
        return self.dtype is other.dtype and self.size == other.size

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    __repr__ = __str__


Types = Type | tuple[Type, ...]
