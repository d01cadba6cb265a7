"""Rewrites CPU kernels: partitions loops at seams, and replaces gathers by consecutive loads."""

from __future__ import annotations

from dataclasses import replace

from xlac.codegen.core.seams.dead import without_unused
from xlac.codegen.core.seams.masked_loads import knowledge_of, masked
from xlac.codegen.core.seams.opportunities import has_gathers, has_seams
from xlac.codegen.core.seams.partition import partitioned
from xlac.codegen.core.seams.shuffled_loads import shuffled
from xlac.codegen.core.seams.woven_stores import woven
from xlac.codegen.schedules.schedule import Misfit
from xlac.codegen.schedules.seams import SeamsSchedule
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.sharing import distinct
from xlac_sdk.target import Target

REGIONS = 9  # three per axis of two axes: both borders, and the interior


def choose(target: Target) -> SeamsSchedule:
    """The default schedule; where code has to be small, one region."""
    vectors = target.vector_bytes > 0
    return SeamsSchedule(1 if target.size else REGIONS, target.masked, vectors)


def check(schedule: SeamsSchedule, target: Target) -> None:
    """Raises Misfit for kinds of loads that a target lacks."""
    if schedule.masked and not target.masked:
        raise Misfit(("masked",), "masked loads are not cheap on this target")


def rewritten(kernel: Kernel, schedule: SeamsSchedule) -> Kernel:
    """The kernel, rewritten by a schedule; the same object if it has no seams."""
    exprs = distinct(kernel.body)
    if has_seams(kernel.body, exprs):
        whole, kernel = kernel, partitioned(kernel, schedule.regions)
        exprs = exprs if kernel is whole else distinct(kernel.body)
    if not has_gathers(kernel.body, exprs):
        return kernel
    body = kernel.body
    known = knowledge_of(body)
    if schedule.masked:
        body = masked(body, known)
    if schedule.shuffled:
        body = woven(shuffled(body, known))
    return kernel if body is kernel.body else replace(kernel, body=without_unused(body))
