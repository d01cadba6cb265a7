"""Kernel expressions, buffers and variables, as frozen values.

Schedules often look up expressions by value: those of index arithmetic hash only the fields that
usually distinguish them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive


class Space(Enum):
    """The memory space of a buffer."""

    GLOBAL = "global"  # passed by the program: a kernel parameter
    LOCAL = "local"  # one per thread: stack or registers
    SHARED = "shared"  # one per block of a GPU


class Access(Enum):
    """How a kernel accesses a parameter."""

    READ = "read"
    WRITE = "write"
    REREAD = "reread"  # writes, and reads only what it has written itself
    UPDATE = "update"  # reads the former contents, and writes


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A flat array of elements. Compared by identity; `size` is in elements.

    Distinct parameters never overlap unless both are only read. A LOCAL or SHARED buffer has a
    constant size; a GLOBAL one with a symbolic extent has an `Expr` over the kernel's sizes.
    """

    name: str
    dtype: DType
    size: int | Expr
    space: Space = Space.GLOBAL
    access: Access = Access.READ
    align: int = 64  # known alignment of its start in bytes


@dataclass(frozen=True, slots=True)
class Const:
    """A number in every lane. NaN and infinities are allowed for floats."""

    value: int | float | bool
    dtype: DType
    lanes: int = 1

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class Var:
    """A loop counter, a kernel size, or a name bound by Let.

    For index variables `low` and `high` are inclusive bounds, `below` is an exclusive upper bound
    (an expression over the kernel's sizes) and `multiple` a divisor, if known: index arithmetic is
    simplified with them. They are facts, not part of the identity.
    """

    name: str
    dtype: DType
    lanes: int = 1
    low: int | None = field(default=None, compare=False)
    high: int | None = field(default=None, compare=False)
    multiple: int = field(default=1, compare=False)
    below: Expr | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Ramp:
    """`base + stride * [0, 1, …, lanes-1]`: the vector of indices of a vectorised loop."""

    base: Expr
    stride: int
    lanes: int

    def __hash__(self) -> int:
        return hash(self.base)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.base.dtype


@dataclass(frozen=True, slots=True)
class Splat:
    """One scalar in every lane."""

    value: Expr
    lanes: int

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Load:
    """Reads `lanes` elements.

    A scalar `index` with `lanes > 1` reads consecutive elements from it; a vector `index` (of the
    same lane count) gathers. Lanes whose `mask` is false are not read and yield zero. `align` is
    the known alignment of the address in bytes (0: that of one element).
    """

    buffer: Buffer
    index: Expr
    lanes: int = 1
    mask: Expr | None = None
    align: int = 0

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.buffer.dtype


@dataclass(frozen=True, slots=True)
class Apply:
    """A primitive on operands of equal lane counts. `dtype` is the result's."""

    primitive: Primitive
    operands: tuple[Expr, ...]
    dtype: DType
    lanes: int = 1

    def __hash__(self) -> int:
        return hash(self.operands)


@dataclass(frozen=True, slots=True)
class Fold:
    """All lanes of a vector combined into one scalar, in any order."""

    primitive: Primitive
    value: Expr

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.dtype

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return 1


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Chosen lanes of the concatenation of one or two vectors; one chosen lane is a scalar."""

    values: tuple[Expr, ...]
    picks: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.values[0].dtype

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return len(self.picks)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The value held by the GPU thread whose index in the warp is ours xor `distance`."""

    value: Expr
    distance: int

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.dtype

    @property
    def lanes(self) -> int:
        """The number of lanes."""
        return self.value.lanes


Expr = Const | Var | Ramp | Splat | Load | Apply | Fold | Shuffle | Exchange
