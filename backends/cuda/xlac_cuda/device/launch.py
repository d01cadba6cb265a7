"""How a kernel of the text is launched: its name there, its grid, and its arguments as one packed
buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xlac_cuda.device import tensor_maps
from xlac_cuda.emit.dialect import CUDA
from xlac_sdk.kernel_ir.grid import Grid, grid, spread
from xlac_sdk.kernel_ir.kernel import Kernel, TensorMap
from xlac_sdk.programs.tensor_maps import tensor_maps as maps_of


@dataclass(frozen=True, eq=False)
class KernelEntry:
    """A kernel's way in. Arguments are its tensor maps, then its parameters' addresses and its
    sizes, all of 8 bytes.
    """

    kernel: Kernel

    @cached_property
    def _grid(self) -> Grid:
        found = grid(spread(self.kernel))
        assert found is not None, f"kernel {self.kernel.name} is no grid"
        return found

    @property
    def symbol(self) -> str:
        """Its name in the text."""
        return symbol(self.kernel)

    @property
    def threads(self) -> int:
        """Of a block."""
        return self._grid.threads

    @property
    def dynamic(self) -> int:
        """Bytes of shared memory that a launch asks for, beyond what the text declares."""
        found = self._grid.shared_bytes
        return found if found > CUDA.most_shared else 0

    def blocks(self, sizes: tuple[int, ...]) -> int:
        """How many for these values of the kernel's sizes; 0 when there is nothing to do."""
        names = (size.name for size in self.kernel.sizes)
        return self._grid.count(dict(zip(names, sizes, strict=True)))

    @cached_property
    def packing(self) -> struct.Struct:
        """How the arguments lie in one buffer."""
        return struct.Struct(
            f"{tensor_maps.BYTES}s" * len(self._maps)
            + f"{len(self.kernel.parameters)}Q{len(self.kernel.sizes)}q"
        )

    @cached_property
    def _maps(self) -> tuple[TensorMap, ...]:
        return maps_of(self.kernel, CUDA.instructions)

    def packed(self, addresses: Sequence[int], sizes: Sequence[int]) -> bytes:
        """The arguments, for parameters that lie at these addresses."""
        if not self._maps:
            return self.packing.pack(*addresses, *sizes)
        where = dict(zip(self.kernel.parameters, addresses, strict=True))
        known = {size.name: value for size, value in zip(self.kernel.sizes, sizes, strict=True)}
        maps = (tensor_maps.at(one, where[one.buffer], known) for one in self._maps)
        return self.packing.pack(*maps, *addresses, *sizes)


def symbol(kernel: Kernel) -> str:
    """Its name in the text."""
    return CUDA.kernel.format(CUDA.identifier(kernel.name))


def entries(kernels: tuple[Kernel, ...]) -> Mapping[Kernel, KernelEntry]:
    """The way into each kernel."""
    return {kernel: KernelEntry(kernel) for kernel in kernels}
