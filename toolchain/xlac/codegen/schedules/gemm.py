"""Schedules of contractions on a CPU: three templates, and the kernel that packs an operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule, Threads
from xlac_sdk.dtypes import DType

Operand = Literal["direct", "constant", "running"]
"""How the right operand is read: where it lies, from panels packed while compiling, or from panels
that a kernel before packs in every run."""


@dataclass(frozen=True, slots=True)
class CacheBlocking(Part):
    """How the tiles of a gemm are ordered. A block of row tiles passes all panels of columns before
    the next; it is `parts` pieces of `piece` tiles along row axis `axis`, which threads share.

    With a `chunk`, a sum is cut into so many steps, which all tiles of a piece take before the
    next; their sums wait in memory meanwhile.
    """

    axis: Literal["first", "second"]
    piece: Positive
    parts: Positive
    chunk: Natural


@dataclass(frozen=True, slots=True)
class GemmSchedule(Schedule):
    """A register-blocked outer product. `swap` makes the left operand the right one.

    `unroll` are steps of the sum written out in tiles of at most 16 products, and in larger ones: a
    sum of at most 4 steps is written out whole, and a divisor of a sum's length is taken where one
    is a little more. With `uncrowded`, they are not written out where that would load elements of
    several steps at once. `hold` is the operand whose elements of a step are kept in registers: the
    vectors of the right one, or those of which a tile has fewer.
    """

    template: ClassVar[str] = "gemm"
    swap: bool
    tile: RegisterTile
    right: Operand
    dtype: DType  # of the right operand as it is read
    blocking: CacheBlocking
    unroll: tuple[Positive, Positive]
    uncrowded: bool
    hold: Literal["right", "fewer"]
    threads: Threads
    prefetch: bool  # the panel that follows, while one is crossed
    transposed_store: bool  # squares of results are turned around in registers
    epilogue_loop: bool  # what follows is a loop over rows, not written out for each
    backward: bool  # there is a second kernel, from the last panel to the first


@dataclass(frozen=True, slots=True)
class InnerProductSchedule(Schedule):
    """Vectors of `lanes` along the sum, a tile of `rows` by `columns` results at once; `unroll`
    vectors at once in tiles of at most 8 results.
    """

    template: ClassVar[str] = "inner_product"
    swap: bool
    lanes: Positive
    rows: Positive
    columns: Positive
    unroll: Positive
    threads: Threads


@dataclass(frozen=True, slots=True)
class AutovectorizedSchedule(Schedule):
    """Plain loops that a C compiler makes vectors of: panels of `width` columns, sums of `rows` rows
    in memory, `steps` of the sum at once.
    """

    template: ClassVar[str] = "autovectorized"
    swap: bool
    width: Positive
    rows: Positive
    steps: Positive
    right: Literal["direct", "constant"]


@dataclass(frozen=True, slots=True)
class PackSchedule(Schedule):
    """The kernel that packs panels. `transposed` reads along the sum, and turns squares of vectors
    around in registers.
    """

    template: ClassVar[str] = "pack"
    transposed: bool
    threads: Threads


ContractionSchedule = GemmSchedule | InnerProductSchedule | AutovectorizedSchedule
CONTRACTIONS = (GemmSchedule, InnerProductSchedule, AutovectorizedSchedule)
