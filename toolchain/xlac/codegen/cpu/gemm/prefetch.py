"""Prefetches packed panels into the second-level cache.

The first row tile that uses a panel would otherwise run at memory speed, while memory is idle
during the tiles after it. So every tile prefetches a part of the next panel while it uses the
current one.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlac.codegen.core.contraction.contraction import Contraction
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.elements import Elements
from xlac.ir.dims import Dim, size_hint, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr
from xlac_sdk.target import Target


def pays(c: Contraction, dtype: DType, target: Target) -> bool:
    """Whether packed panels of a type are read by vectors, and all of them together exceed the
    second-level cache.
    """
    columns = size_hint(
        c.depth * c.columns.extent * volume(tuple(a.extent for a in c.outer if a.right != 0))
    )
    large = columns * dtype.nbytes > target.hardware.l2_room // 2
    return large and target.vector_bytes > 0 and not target.size


@dataclass(frozen=True, slots=True)
class PanelPrefetch:
    """The part prefetched by one tile: as the tile advances in the panel from `begin`, `start`
    advances by `share` of that.
    """

    builder: Builder
    buffer: Buffer
    begin: Expr
    start: Expr
    share: int
    line_bytes: int

    def fetch(self, here: Expr, step: int) -> None:
        """Prefetches the lines for `step` elements of the panel, from `here` on."""
        line = self.line_bytes // self.buffer.dtype.nbytes
        moved = build.div(build.sub(here, self.begin), self.share)
        for n in range(-(-step // (self.share * line))):
            self.builder.prefetch(self.buffer, build.add(build.add(self.start, moved), n * line))


def panel_prefetch(
    elements: Elements, panels: Panels, begin: Expr, size: int, tile: Expr, tiles: Dim
) -> PanelPrefetch | None:
    """The prefetch of tile number `tile` of `tiles` over `size` elements from `begin`; None if
    there are too few tiles: each step would have to prefetch too many lines.
    """
    hardware = elements.target.hardware
    if size_hint(tiles) < hardware.prefetch_tiles:
        return None
    builder, share = elements.builder, 1 << (size_hint(tiles).bit_length() - 1)
    part = build.mul(build.mod(tile, share), size // share)
    start = builder.let("f", build.add(build.add(begin, size), part))
    buffer = elements.parameter(panels.source.value, Access.READ)
    return PanelPrefetch(builder, buffer, begin, start, share, hardware.line_bytes)
