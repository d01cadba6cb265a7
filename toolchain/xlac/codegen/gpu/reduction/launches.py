"""The kernels of a group around reductions on a GPU, by its schedule: by rows or by columns, of
whole results or split.
"""

from __future__ import annotations

from functools import partial

from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.reduction import ReductionValues
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.reduction_plan import ReductionSpace
from xlac.codegen.gpu.reduction import split_reduction
from xlac.codegen.gpu.reduction.check import check
from xlac.codegen.gpu.reduction.choose import choose
from xlac.codegen.gpu.reduction.columns import Columns
from xlac.codegen.gpu.reduction.row_threads import by_row
from xlac.codegen.gpu.reduction.rows import RowBlocks
from xlac.codegen.schedules.gpu.reduction import (
    GPU_REDUCTIONS,
    GpuReductionSchedule,
    GpuSplitReductionSchedule,
)
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch, or two if there are too few results to keep the multiprocessors busy."""
    space = ReductionSpace.of(group)
    values = ReductionValues(Elements(Builder(), group, target), space)
    schedule: GpuReductionSchedule = lower_part.decisions.settle(
        name, choose(values), partial(check, values=values), GPU_REDUCTIONS
    )
    writer = RowBlocks if by_row(schedule, space) else Columns
    rows = writer(Elements(Builder(), group, target), space)
    rows.follow(schedule)
    if isinstance(schedule, GpuSplitReductionSchedule):
        return split_reduction.lower(group, target, name, rows, schedule)
    rows.write()
    return LoweredGroup((rows.elements.launch(name, cost.work(group)),), tuple(rows.in_place()))
