"""Small matrices on a CPU: chooses how they are factored or solved with."""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import check_threads, pieces_of, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.strip_mining import check_vectors, lanes_for
from xlac.codegen.cpu.matrix.cholesky import cholesky
from xlac.codegen.cpu.matrix.lu import lu
from xlac.codegen.cpu.matrix.substitution import Substitution
from xlac.codegen.cpu.matrix.workspace import Workspace
from xlac.codegen.schedules.matrix import FactorSchedule, SubstitutionSchedule
from xlac.codegen.schedules.schedule import Misfit
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ops.linalg.triangular_solve import TriangularSolve
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target

ROWS = 4  # rows of a triangular system that are summed at once
MOST_ROWS = 16  # whose triangle is unrolled


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """One launch."""
    elements = Elements(Builder(), group, target)
    decisions = lower_part.decisions
    if isinstance(group.anchor.op, TriangularSolve):
        solve = decisions.settle(
            name, _substitution(group.anchor, target), lambda s: _fits(s, group, target)
        )
        Substitution(elements, solve).write()
    else:
        factor = decisions.settle(
            name, _factor(group.anchor, target), lambda s: _factors(s, group, target)
        )
        {"lu": lu, "cholesky": cholesky}[group.anchor.op.mnemonic](Workspace(elements, factor))
    return LoweredGroup((elements.launch(name, cost.work(group)),))


def _factor(anchor: Node, target: Target) -> FactorSchedule:
    """As many lanes as rows have elements, up to a vector."""
    (a,) = anchor.inputs
    *batch, rows, columns = a.shape
    lanes = lanes_for(target, [a.type.dtype], columns)
    each = size_hint(rows) * size_hint(columns) * size_hint(columns)
    loops = [Run(n, (axis,)) for axis, n in enumerate(batch)]
    return FactorSchedule(lanes, share(target, loops, each))


def _substitution(anchor: Node, target: Target) -> SubstitutionSchedule:
    """As many vectors of columns as registers hold with their sums, in groups of equal size."""
    b = anchor.inputs[1]
    *batch, size, columns = b.shape
    lanes = lanes_for(target, [b.type.dtype], columns)
    count, most = -(-size_hint(columns) // lanes), 4 if target.vector_registers >= 32 else 2
    unroll = -(-count // -(-count // most))
    loops = [Run(n, (axis,)) for axis, n in enumerate(batch)]
    loops.append(pieces_of(columns, lanes * unroll))
    threads = share(target, loops, size_hint(size) ** 2 * lanes * unroll)
    return SubstitutionSchedule(lanes, unroll, min(ROWS, size_hint(size)), threads)


def _factors(schedule: FactorSchedule, group: Group, target: Target) -> None:
    """Raises Misfit for a schedule that cannot be used."""
    check_vectors(schedule.lanes, 1, False, target)
    check_threads(schedule.threads, group.anchor.inputs[0].type.rank - 2)


def _fits(schedule: SubstitutionSchedule, group: Group, target: Target) -> None:
    """Raises Misfit for a schedule that cannot be used."""
    check_vectors(schedule.lanes, schedule.unroll, False, target)
    check_threads(schedule.threads, group.anchor.type.rank - 1)
    if schedule.rows > MOST_ROWS:
        raise Misfit(("rows",), f"it must be at most {MOST_ROWS}, which are unrolled")
