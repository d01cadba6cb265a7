"""Schedules of contractions on a CPU: their templates, and the kernel that packs an operand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.schedules.schedule import Natural, Part, Positive, Schedule, Threads
from xlac_sdk.dtypes import DType

Operand = Literal["direct", "constant", "running", "panel"]
"""How the right operand is read: in place, from panels packed at compile time, from panels that a
kernel packs in every run, or from one panel that is packed before its tiles are computed.
"""


@dataclass(frozen=True, slots=True)
class CacheBlocking(Part):
    """The order of a gemm's tiles. A block of row tiles is multiplied with all panels of columns
    before the next block; it consists of `parts` pieces of `piece` tiles along row axis `axis`,
    which threads share.

    If `chunk` is not 0, a sum is split into chunks of `chunk` steps: all tiles of a piece process
    one chunk before the next, and their partial sums are in memory meanwhile.
    """

    axis: Literal["first", "second"]
    piece: Positive
    parts: Positive
    chunk: Natural


@dataclass(frozen=True, slots=True)
class GemmSchedule(Schedule):
    """A register-blocked outer product. `swap` exchanges the left and the right operand.

    `unroll` are two unroll factors of the sum's loop: for tiles of at most 16 products, and for
    larger ones. A sum of at most 4 steps is unrolled completely, and a slightly larger factor is
    used if it divides the sum's length. With `uncrowded`, the loop is not unrolled if that would
    load elements of several steps at once. `hold` is the operand whose elements of a step are kept
    in registers: the right one (`right`), or the one with `fewer` elements or vectors in a tile.
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
    prefetch: bool  # prefetches the next panel
    transposed_store: bool  # squares of results are transposed in registers
    epilogue_loop: bool  # the epilogue is a loop, over rows of a tile or columns of its squares
    backward: bool  # there is a second kernel that reads the panels from the last to the first


@dataclass(frozen=True, slots=True)
class BytesGemmSchedule(GemmSchedule):
    """A gemm of words, where a step of the sum takes four products of bytes or two of i16. If its
    panels are of `i64`, it takes two words: a vector has both of each column, which are added at
    the end.
    """

    template: ClassVar[str] = "bytes_gemm"


@dataclass(frozen=True, slots=True)
class MatrixGemmSchedule(BytesGemmSchedule):
    """A gemm of bytes by the target's matrix unit. The rows of `tile` are one or two groups of up
    to 16: two rows of the first axis, or neighbours along the second. Its sums have up to four
    registers, of a group by a vector of 16 columns each.
    """

    template: ClassVar[str] = "matrix_gemm"


@dataclass(frozen=True, slots=True)
class InnerProductSchedule(Schedule):
    """Vectors of `lanes` along the sum, for a tile of `rows` by `columns` results at once; `unroll`
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
    """Plain loops that a C compiler vectorizes: panels of `width` columns, sums of `rows` rows in
    memory, `steps` of the sum at once.
    """

    template: ClassVar[str] = "autovectorized"
    swap: bool
    width: Positive
    rows: Positive
    steps: Positive
    right: Literal["direct", "constant"]


@dataclass(frozen=True, slots=True)
class StreamedGemmSchedule(Schedule):
    """A register-blocked outer product whose sum is the outermost loop, for long sums of operands
    that are contiguous along rows and columns, as gradients for weights are. In turn, a block of
    the sum of both is copied to a local array and multiplied, while the sums of all tiles are in
    memory: operands are read once, as they lie.

    Rows are runs of contiguous elements of the left operand. A piece of the result has `runs` runs
    of `row_tiles` tiles, and `panels` panels of columns; `threads` share the loop over pieces.
    `unroll` steps of the sum are in a turn of its loop.
    """

    template: ClassVar[str] = "streamed_gemm"
    tile: RegisterTile
    runs: Positive
    row_tiles: Positive
    panels: Positive
    unroll: Positive
    threads: Threads
    transposed_store: bool  # squares of results are transposed in registers


@dataclass(frozen=True, slots=True)
class PackSchedule(Schedule):
    """The kernel that packs panels. `transposed` reads along summed axes that are neighbours in
    memory, and transposes squares of vectors in registers; with `prefetch`, it prefetches what the
    next squares load.
    """

    template: ClassVar[str] = "pack"
    transposed: bool
    prefetch: bool
    threads: Threads


ContractionSchedule = (
    GemmSchedule | InnerProductSchedule | AutovectorizedSchedule | StreamedGemmSchedule
)
CONTRACTIONS = (
    GemmSchedule,
    BytesGemmSchedule,
    MatrixGemmSchedule,
    InnerProductSchedule,
    AutovectorizedSchedule,
    StreamedGemmSchedule,
)
