"""What the compiler decided, as text: fused groups, kernels and memory."""

from __future__ import annotations

from collections.abc import Iterator

from xlac.codegen.core.lowered_group import LibraryCall
from xlac.codegen.schedules.document import write
from xlac.driver import Lowered
from xlac.fusion.group import Group, Kind, Partition
from xlac.fusion.partition import is_alias
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir.kernel import Kernel, Work
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.programs.text import show_program


def label(node: Node) -> str:
    """A node as people know it: its path in the model, or its operation."""
    return f"{node.name} ({node.op.mnemonic})" if node.name else node.op.mnemonic


def groups(partition: Partition, depth: int = 0) -> Iterator[tuple[int, Group]]:
    """Every group with its depth of nesting, those of loop bodies after the loop."""
    for group in partition.groups:
        yield depth, group
        for body in group.anchor.op.bodies():
            if body in partition.inner:
                yield from groups(partition.inner[body], depth + 1)


def kernels_of(lowered: Lowered, group: Group) -> tuple[Kernel, ...]:
    """The kernels that compute a group, in order; none for an alias or a host step."""
    if is_alias(group) or group.kind in (Kind.CONTROL, Kind.CLAIMED):
        return ()
    return tuple(step.kernel for step in lowered.schedules(group).launches)


def call_of(lowered: Lowered, group: Group) -> LibraryCall | None:
    """The call of the target's library that computes a group, where one does."""
    if is_alias(group) or group.kind in (Kind.CONTROL, Kind.CLAIMED):
        return None
    return lowered.schedules(group).call


def work_of(kernels: tuple[Kernel, ...]) -> Work:
    """The work of some kernels together."""
    return Work(sum(k.work.flops for k in kernels), sum(k.work.bytes for k in kernels))


def fused(lowered: Lowered) -> str:
    """Every group: its kernels, what was fused and why, and its cost."""
    lines = []
    for number, (depth, group) in enumerate(groups(lowered.partition)):
        pad = "  " * depth
        made, call = kernels_of(lowered, group), call_of(lowered, group)
        work = call.work if call else work_of(made)
        # which library calls it, or why none
        note = lowered.schedules(group).note if made or call else ""
        names = ", ".join(k.name for k in made) or (
            "alias" if is_alias(group) else note if call else "host step"
        )
        lines.append(f"{pad}{number}. {group.kind.value}: {names}")
        lines.append(
            f"{pad}   computes {', '.join(f'{label(n)} {n.types}' for n in group.outputs)}"
        )
        inner = [label(n) for n in group.nodes if n not in group.outputs]
        if inner:
            lines.append(f"{pad}   fuses {', '.join(inner)}")
        if group.reason:
            lines.append(f"{pad}   because {group.reason}")
        if made and note:
            lines.append(f"{pad}   {note}")
        if made or call:
            lines.append(f"{pad}   {work.flops:,} flops, {work.bytes:,} bytes moved")
    return "\n".join(lines)


def schedules(lowered: Lowered) -> str:
    """What was chosen for the kernels of every group, as a document that `--schedule` takes."""
    table = lowered.schedules.table()
    titles = {
        name: f"{group.kind.value}: {', '.join(k.name for k in kernels_of(lowered, group))}"
        f" computes {', '.join(map(label, group.outputs))}"
        for name, (group, _) in table.items()
    }
    made = {name: parts for name, (_, parts) in table.items()}
    head = f"Schedules of {lowered.model.name} for {lowered.target.name}: docs/SCHEDULES.md"
    return write(made, titles, head)


def kernels(program: Program) -> str:
    """Every kernel once, as text."""
    return "\n\n".join(show(k) for k in program.kernels)


def memory(program: Program) -> str:
    """Every slot and step, and how close the arena is to the least possible."""
    live = int(program.facts.get("live_bytes", program.arena_bytes))
    constants = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
    lines = [
        show_program(program),
        f"arena: {program.arena_bytes:,} bytes; the most alive at once: {live:,} bytes",
        f"constants: {constants:,} bytes",
    ]
    return "\n".join(lines)
