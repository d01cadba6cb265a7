"""Dispatches fused groups to lowerings: which module lowers a kind of group on a device.

The tables name modules as text, and a module is imported on first use, so that a compilation for a
CPU loads no lowering of GPUs or libraries. Lowerings do not import each other: each is passed
`lower` for parts of its group that are of other kinds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart
from xlac.codegen.core.seams import rewrite as seams
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import WITHOUT_KERNELS, Group, Kind
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target

CPU: dict[Kind, str] = {
    Kind.ELEMENTWISE: "xlac.codegen.cpu.elementwise",
    Kind.ROWS: "xlac.codegen.cpu.reduction",
    Kind.REDUCE: "xlac.codegen.cpu.reduction",
    Kind.DOT: "xlac.codegen.cpu.gemm.dot",
    Kind.CONV: "xlac.codegen.cpu.conv.conv",
    Kind.ATTENTION: "xlac.codegen.cpu.attention.attention",
    Kind.WINDOW: "xlac.codegen.cpu.window",
    Kind.SCATTER: "xlac.codegen.cpu.scatter",
    Kind.UPDATE: "xlac.codegen.cpu.update",
    Kind.CUMULATIVE: "xlac.codegen.cpu.cumulative",
    Kind.SORT: "xlac.codegen.cpu.sort.lower",
    Kind.MATRIX: "xlac.codegen.cpu.matrix.lower",
    Kind.RANDOM: "xlac.codegen.cpu.random",
    Kind.CUSTOM: "xlac.codegen.hand_written",
}
GPU: dict[Kind, str] = {
    Kind.ELEMENTWISE: "xlac.codegen.gpu.elementwise",
    Kind.ROWS: "xlac.codegen.gpu.reduction.launches",
    Kind.REDUCE: "xlac.codegen.gpu.reduction.launches",
    Kind.DOT: "xlac.codegen.gpu.gemm.dot",
    Kind.CONV: "xlac.codegen.gpu.gemm.conv",
    Kind.ATTENTION: "xlac.codegen.gpu.attention.attention",
    Kind.WINDOW: "xlac.codegen.gpu.window",
    Kind.SCATTER: "xlac.codegen.gpu.scatter",
    Kind.UPDATE: "xlac.codegen.gpu.update",
    Kind.CUMULATIVE: "xlac.codegen.gpu.scan.cumulative",
    Kind.SORT: "xlac.codegen.gpu.sort.sort",
    Kind.RANDOM: "xlac.codegen.gpu.random",
    Kind.CUSTOM: "xlac.codegen.hand_written",
}
"""The module whose `lower(group, target, name, lower_part)` makes the kernels of a
kind of group.
"""

CPU_OPERATIONS = {
    "select_and_scatter": "xlac.codegen.cpu.window_choice.lower",
    "attention_gradient": "xlac.codegen.cpu.attention.gradient",
}
GPU_OPERATIONS = {"compact": "xlac.codegen.gpu.scan.compact"}
"""Operations, by mnemonic, that a device lowers differently from others of their kind."""

LIBRARY = "xlac.codegen.library.choose"
LIBRARIES = (Kind.DOT, Kind.CONV, Kind.ATTENTION)  # kinds that a target's libraries may compute


def lower(
    group: Group, target: Target, name: str, decisions: Decisions | None = None
) -> LoweredGroup:
    """The launches of a group; `name` is a unique identifier, `decisions` settles and records
    schedules.

    A group whose outputs are all empty has no launches, and one that a library of the target
    computes is a call. CLAIMED and CONTROL groups are host steps without kernels, which the planner
    writes.
    """
    decisions = decisions or Decisions(name)
    lowered = _lower(group, target, name, decisions)
    return _seamless(lowered, target, name, decisions) if target.device == "cpu" else lowered


def _lower(group: Group, target: Target, name: str, decisions: Decisions) -> LoweredGroup:
    checkpoint()
    if all(t.size == 0 for node in group.outputs for t in node.results):
        return LoweredGroup(())
    if group.kind in LIBRARIES and (target.products or target.convolutions or target.attentions):
        library: Any = import_module(LIBRARY)
        called = library.called(group, target)
        if isinstance(called, LoweredGroup):
            return called
        return replace(_lower(group, library.without(target), name, decisions), note=called)
    lowering: Any = import_module(module_of(group, target))
    lowered: LoweredGroup = lowering.lower(group, target, name, LowerPart(_lower, decisions))
    return lowered


def _seamless(
    lowered: LoweredGroup, target: Target, name: str, decisions: Decisions
) -> LoweredGroup:
    """The lowering with loops partitioned at their seams, where there are some."""
    part = f"{name}_seams"
    wanted = decisions.wanted(part)
    schedule = seams.choose(target)
    if wanted is not None:
        schedule = decisions.settle(part, schedule, partial(seams.check, target=target))
    launches = [seams.rewritten(launch.kernel, schedule) for launch in lowered.launches]
    if all(new is old.kernel for new, old in zip(launches, lowered.launches, strict=True)):
        return lowered
    if wanted is None:
        decisions.settle(part, schedule, partial(seams.check, target=target))
    launches_now = tuple(
        replace(old, kernel=new) for new, old in zip(launches, lowered.launches, strict=True)
    )
    return replace(lowered, launches=launches_now)


def module_of(group: Group, target: Target) -> str:
    """The name of the module that lowers a group for a device."""
    if group.kind in WITHOUT_KERNELS:
        raise AssertionError(f"a {group.kind.value} group has no kernels")
    if target.device == "cpu":
        return CPU_OPERATIONS.get(group.anchor.op.mnemonic) or CPU[group.kind]
    return GPU_OPERATIONS.get(group.anchor.op.mnemonic) or GPU[group.kind]
