"""The memory plan of a model's groups, for each order of them that is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.fusion.group import Partition
from xlac.ir.dims import Symbol
from xlac.ir.op import Array
from xlac.memory.alternate import caches
from xlac.memory.merged_launches import MergedLaunches
from xlac.memory.planner import unplaced
from xlac.memory.unplaced import UnplacedProgram


@dataclass(frozen=True, slots=True)
class ProgramPlanner:
    """Callable: the program of a partition, without places for its temporaries. Every call shares
    the kernels of `lowering`, and those that `launcher` merged.

    `state` maps state tensors to the outputs that are their next values; `sizes` are the open ones.
    """

    lowering: LoweringCache
    weights: Mapping[str, Array]
    state: Mapping[str, str]
    sizes: tuple[Symbol, ...]
    launcher: MergedLaunches = field(default_factory=MergedLaunches)

    def __call__(self, partition: Partition) -> UnplacedProgram:
        made = unplaced(
            partition,
            self.lowering.lowered(partition),
            self.weights,
            self.launcher,
            self.state,
            self.sizes,
            caches(self.lowering.target),
        )
        return made.aligned(self.lowering.target.alignment)
