"""Fetches packed panels into the second cache before they are read.

The first row tile that crosses a panel would otherwise read it at the speed of memory, and the
tiles after it leave memory idle. So every tile fetches a part of what lies behind the panel while
it crosses it.
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

LINE = 64  # bytes of a cache line
# row tiles that share a panel: fewer would have to fetch more lines a step than there is time for
LEAST = 4


def pays(c: Contraction, dtype: DType, target: Target) -> bool:
    """True when packed panels of a type are read by vectors, and all of them together do not stay
    in the second cache.
    """
    columns = size_hint(
        c.depth * c.columns.extent * volume(tuple(a.extent for a in c.outer if a.right != 0))
    )
    large = columns * dtype.nbytes > target.l2_bytes // 2
    return large and target.vector_bytes > 0 and not target.size


@dataclass(frozen=True, slots=True)
class PanelPrefetch:
    """One tile's part: as it moves through the panel from `begin`, `start` moves by a `share` of
    that.
    """

    builder: Builder
    buffer: Buffer
    begin: Expr
    start: Expr
    share: int

    def fetch(self, here: Expr, step: int) -> None:
        """The lines that belong to `step` elements of the panel, of which the first is `here`."""
        line = LINE // self.buffer.dtype.nbytes
        moved = build.div(build.sub(here, self.begin), self.share)
        for n in range(-(-step // (self.share * line))):
            self.builder.prefetch(self.buffer, build.add(build.add(self.start, moved), n * line))


def panel_prefetch(
    elements: Elements, panels: Panels, begin: Expr, size: int, tile: Expr, tiles: Dim
) -> PanelPrefetch | None:
    """What tile number `tile` of `tiles` fetches while it crosses `size` elements from `begin`;
    None for too few tiles.
    """
    if size_hint(tiles) < LEAST:
        return None
    builder, share = elements.builder, 1 << (size_hint(tiles).bit_length() - 1)
    part = build.mul(build.mod(tile, share), size // share)
    start = builder.let("f", build.add(build.add(begin, size), part))
    return PanelPrefetch(
        builder, elements.parameter(panels.source.value, Access.READ), begin, start, share
    )
