"""Parts of kernels with blocks and threads, for GPU cases."""

from __future__ import annotations

from xlac_sdk.conformance.case import EXACT, ConformanceCase
from xlac_sdk.conformance.programs import of_kernel, values
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build, indexing
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    LoopKind,
    Space,
    Stmt,
    Var,
)

F32, I64 = DType.F32, DType.I64
BLOCKS = 5


class GridBody(build.Builder):
    """The statements of one thread, with the indices of its block and itself."""

    def __init__(self, blocks: indexing.Number, threads: int) -> None:
        super().__init__()
        stop = indexing.lift(blocks)
        most = int(stop.value) - 1 if isinstance(stop, Const) else None
        below = None if isinstance(stop, Const) else stop
        self.blocks, self.threads = stop, threads
        self.block_number = Var("block", I64, low=0, high=most, below=below)
        self.thread = Var("thread", I64, low=0, high=threads - 1)
        self.allocated: list[Stmt] = []

    @property
    def element(self) -> Expr:
        """The index of the thread in the whole grid."""
        return build.add(build.mul(self.block_number, self.threads), self.thread)

    def shared(self, name: str, dtype: DType, size: int) -> Buffer:
        """A buffer in shared memory."""
        buffer = Buffer(name, dtype, size, Space.SHARED)
        self.allocated.append(Allocate(buffer))
        return buffer

    def kernel(self, name: str, *parameters: Buffer, sizes: tuple[Var, ...] = ()) -> Kernel:
        """The kernel of these threads."""
        zero, count = build.index(0), build.index(self.threads)
        inner = For(self.thread, zero, count, self.body(), kind=LoopKind.THREAD)
        body = (*self.allocated, inner)
        outer = For(self.block_number, zero, self.blocks, body, kind=LoopKind.BLOCK)
        return Kernel(name, parameters, (outer,), sizes)


def ends(
    threads: int, dtype: DType = F32, out: int = 0, result: DType | None = None, align: int = 1
) -> tuple[Buffer, Buffer]:
    """An input with an element for each thread, and an output of as many, or of `out`, elements."""
    size = BLOCKS * threads
    x = Buffer("x", dtype, size, align=align)
    y = Buffer("y", result or dtype, out or size, access=Access.REREAD, align=align)
    return x, y


def grid_case(name: str, kernel: Kernel) -> ConformanceCase:
    """A case that launches a kernel of two parameters on ordinary numbers."""
    x = kernel.parameters[0]
    assert isinstance(x.size, int)
    return of_kernel(name, kernel, values(x.dtype, x.size), EXACT, "grids")
