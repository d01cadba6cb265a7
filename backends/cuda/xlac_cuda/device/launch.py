"""The launch parameters of a kernel: its symbol, its grid, and its arguments in one
packed buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xlac_cuda.device import tensor_maps
from xlac_cuda.emit.dialect import CUDA
from xlac_sdk.kernel_ir.grid import Grid, grid
from xlac_sdk.kernel_ir.kernel import Kernel, TensorMap
from xlac_sdk.lowering.spread import spread
from xlac_sdk.programs.tensor_maps import tensor_maps as maps_of


@dataclass(frozen=True, eq=False)
class KernelEntry:
    """A kernel as it is launched. Its arguments are its tensor maps, then its parameters' addresses
    and its sizes, of 8 bytes each.
    """

    kernel: Kernel

    @cached_property
    def _grid(self) -> Grid:
        launched = grid(spread(self.kernel))
        assert launched is not None, f"kernel {self.kernel.name} is not a grid"
        return launched

    @property
    def symbol(self) -> str:
        """The kernel's name in the module."""
        return symbol(self.kernel)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self._grid.threads

    @property
    def dynamic(self) -> int:
        """Bytes of dynamic shared memory of a launch, beyond the static ones."""
        nbytes = self._grid.shared_bytes
        return nbytes if nbytes > CUDA.most_shared else 0

    def blocks(self, sizes: tuple[int, ...]) -> int:
        """The number of blocks for these values of the kernel's sizes; 0 if there is
        nothing to do.
        """
        names = (size.name for size in self.kernel.sizes)
        return self._grid.count(dict(zip(names, sizes, strict=True)))

    @cached_property
    def packing(self) -> struct.Struct:
        """The layout of the arguments in one buffer."""
        return struct.Struct(
            f"{tensor_maps.BYTES}s" * len(self._maps)
            + f"{len(self.kernel.parameters)}Q{len(self.kernel.sizes)}q"
        )

    @cached_property
    def _maps(self) -> tuple[TensorMap, ...]:
        return maps_of(self.kernel, CUDA.instructions)

    def packed(self, addresses: Sequence[int], sizes: Sequence[int]) -> bytes:
        """The packed arguments, for parameters at these addresses."""
        if not self._maps:
            return self.packing.pack(*addresses, *sizes)
        where = dict(zip(self.kernel.parameters, addresses, strict=True))
        known = {size.name: value for size, value in zip(self.kernel.sizes, sizes, strict=True)}
        maps = (tensor_maps.at(one, where[one.buffer], known) for one in self._maps)
        return self.packing.pack(*maps, *addresses, *sizes)


def symbol(kernel: Kernel) -> str:
    """The kernel's name in the module."""
    return CUDA.function(kernel.name)


def entries(kernels: tuple[Kernel, ...]) -> Mapping[Kernel, KernelEntry]:
    """The launch parameters of each kernel."""
    return {kernel: KernelEntry(kernel) for kernel in kernels}
