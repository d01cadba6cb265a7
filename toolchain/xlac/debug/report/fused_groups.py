"""Which nodes became which kernel, why they are together, and why no more are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from xlac.debug.decisions import call_of, groups, kernels_of, label, work_of
from xlac.debug.explain.story import TOGETHER, barriers, count, homes
from xlac.debug.report.spec_text import SpecText
from xlac.driver import Lowered
from xlac.fusion.group import Group, Kind
from xlac.fusion.partition import is_alias
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Origin

IN_PLACE = re.compile(r"_in_place_\d+$")


def groups_json(lowered: Lowered, text: SpecText) -> list[dict[str, Any]]:
    """The section `groups`: every group in the order in which they run, those of loop bodies after
    the loop.
    """
    every = list(groups(lowered.partition))
    of_path: dict[Group, list[str]] = {}
    for path, mine in homes([group for _, group in every]).items():
        for group in mine:
            of_path.setdefault(group, []).append(path)
    names = _launched(lowered.program)
    return [
        _group(lowered, group, depth, of_path.get(group, []), names, text) for depth, group in every
    ]


def _group(
    lowered: Lowered,
    group: Group,
    depth: int,
    paths: list[str],
    names: dict[str, list[str]],
    text: SpecText,
) -> dict[str, Any]:
    kernels, call = kernels_of(lowered, group), call_of(lowered, group)
    work = call.work if call else work_of(kernels)
    reads, writes = barriers(group)
    return {
        "kind": group.kind.value,
        "depth": depth,
        "kernels": [name for kernel in kernels for name in names.get(kernel.name, [])],
        "how": _how(group, bool(kernels), lowered.schedules(group).note if kernels or call else ""),
        "computes": [f"{label(n)} {n.types}" for n in group.outputs],
        "nodes": [label(node) for node in group.nodes],
        "paths": paths,
        "why": _why(group),
        "reads": [[why, labels] for why, labels in reads.items()],
        "writes": [[why, labels] for why, labels in writes.items()],
        "flops": work.flops,
        "bytes": work.bytes,
        "places": places(text, (node.origin for node in group.nodes)),
    }


def _launched(program: Program) -> dict[str, list[str]]:
    """The names by which a program launches the kernels that were made under one name: launches
    that write in place have a kernel of their own.
    """
    names: dict[str, list[str]] = {}
    for kernel in program.kernels:
        names.setdefault(IN_PLACE.sub("", kernel.name), []).append(kernel.name)
    return names


def _how(group: Group, has_kernels: bool, note: str) -> str:
    if is_alias(group):
        return "no kernel: the same memory under another shape"
    if group.kind is Kind.CONTROL:
        return f"{group.anchor.op.mnemonic}: its kernels are those inside"
    if note or has_kernels:
        return note
    return "a step of the host"


def _why(group: Group) -> list[str]:
    together = [TOGETHER[group.kind]] if group.kind in TOGETHER and count(group.nodes) > 1 else []
    _, *notes = group.reason.split("; ")
    return [*together, *notes]


def places(text: SpecText, origins: Iterable[Origin | None]) -> list[list[int]]:
    """The lines that some origins name, each once: the number of a file and a line."""
    distinct = sorted({place for origin in origins if (place := text.place(origin))})
    return [list(place) for place in distinct]
