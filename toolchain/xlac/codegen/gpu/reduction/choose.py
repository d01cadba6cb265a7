"""Which kernels a group around reductions has on a GPU: by rows or by columns, and whether pieces of a
result have blocks of their own.
"""

from __future__ import annotations

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.gpu.reduction import split_reduction
from xlac.codegen.gpu.reduction.columns import Columns
from xlac.codegen.gpu.reduction.rows import RowBlocks
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import ceil_div, size_hint, volume
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

# elements for each multiprocessor that make combining parts worth while, times the blocks there are
BLOCK_WORK = 1 << 9


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch, or two where there are too few results to keep the multiprocessors busy."""
    space = ReductionSpace.of(group)
    rows = of_group(Elements(Builder(), group, target), space)
    if pays(rows):
        return split_reduction.lower(
            group, target, name, of_group(Elements(Builder(), group, target), space)
        )
    rows.write()
    return LoweredGroup((rows.elements.launch(name, cost.work(group)),), tuple(rows.in_place()))


def of_group(elements: Elements, space: ReductionSpace) -> RowBlocks:
    """What writes the kernel of a group around reductions."""
    rows = RowBlocks(elements, space)
    return (
        rows
        if rows.by_row and not rows.ordered
        else Columns(Elements(Builder(), elements.group, elements.target), space)
    )


def pays(rows: RowBlocks) -> bool:
    """Whether a group is one pass without results for every element, whose blocks leave
    multiprocessors idle.
    """
    one_pass = len(rows.plan.passes) == 1 and not rows.plan.passes[0].stores and not rows.ordered
    blocks, processors = size_hint(ceil_div(rows.rows, rows.side)), max(1, rows.target.processors)
    many = size_hint(volume(rows.space.shape)) > BLOCK_WORK * processors * blocks
    return one_pass and blocks < processors and many
