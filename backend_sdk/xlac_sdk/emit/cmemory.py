"""The memory of a kernel in C-family text: its parameters, what it allocates, shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from xlac_sdk.emit.cdialect import Dialect, unsupported
from xlac_sdk.emit.cexpressions import SCRATCH, TURN
from xlac_sdk.emit.cvectors import Vectors
from xlac_sdk.kernel_ir import grid
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel, Space


class KernelMemory(Vectors):
    """Declares the buffers of one kernel."""

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.kernel = kernel
        self.grid = grid.grid(kernel)
        self.threads = 0 if self.grid is None else self.grid.threads

    def parameter(self, buffer: Buffer) -> tuple[str, ...]:
        """A buffer's parameter; in languages whose kernels take whole memory objects, also its
        offset, and the buffer itself is declared in the body.
        """
        name, restrict = self.dialect.identifier(buffer.name), self.dialect.restrict
        text = self.dialect.pointer(buffer.space, buffer.dtype, buffer.access is Access.READ)
        if not self.dialect.offset:
            return (f"{text}*{restrict} {name}",)
        return f"{text}*{restrict} {name}_base_", f"{self.dialect.offset} {name}_offset_"

    def declared(self) -> Iterator[str]:
        """The declarations at the start of a kernel, for such languages and for exchanges."""
        for buffer in self.kernel.parameters if self.dialect.offset else ():
            name, const = self.dialect.identifier(buffer.name), buffer.access is Access.READ
            text = self.dialect.pointer(buffer.space, buffer.dtype, const)
            yield f"    {text}*const {name} = {name}_base_ + {name}_offset_;"
        if self.exchanges and self.dialect.scratch:
            assert self.grid is not None, "only threads of a block exchange values"
            scratch = self.dialect.scratch.format(name=SCRATCH, threads=2 * self.threads)
            yield f"    {scratch}"
            yield f"    uint32_t {TURN} = 0;"

    def allocate(self, buffer: Buffer, pad: str) -> Iterator[str]:
        """Memory of a thread, or shared memory of a block: an array, or a part of the pool, which
        is declared with the first one.
        """
        kind, name = self.dialect.types[buffer.dtype], self.name(buffer.name)
        if buffer.space is not Space.SHARED:
            yield f"{pad}{kind} {name}[{buffer.size}];"
            return
        if not self.dialect.shared or self.grid is None:
            raise unsupported(self.dialect, "shared memory")
        if self.grid.shared_bytes <= self.dialect.most_shared:
            yield pad + self.dialect.shared.format(
                type=kind, name=name, size=buffer.size, align=max(grid.ALIGN, buffer.align)
            )
            return
        if buffer is self.grid.shared[0]:
            yield pad + self.dialect.pool.format(
                name="pool_", align=max(grid.ALIGN, *(b.align for b in self.grid.shared))
            )
        at = grid.places(self.grid.shared)[buffer]
        kind = self.dialect.pointer(Space.SHARED, buffer.dtype)
        yield f"{pad}{kind}*const {name} = ({kind}*){f'(pool_ + {at})' if at else 'pool_'};"
