"""The compiler's decisions as text: fused groups, kernels and memory."""

from __future__ import annotations

from collections.abc import Iterator

from xlac.codegen.core.lowered_group import LibraryCall
from xlac.codegen.schedules.document import write
from xlac.driver import Lowered
from xlac.fusion.group import WITHOUT_KERNELS, Group, Partition
from xlac.fusion.partition import is_alias
from xlac.fusion.placement import named_choices
from xlac.ir.graph import Node
from xlac_sdk.kernel_ir.kernel import Kernel, Work
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.programs.text import show_program


def label(node: Node) -> str:
    """A node's name for users: its path in the model, or its operation."""
    return f"{node.name} ({node.op.mnemonic})" if node.name else node.op.mnemonic


def groups(partition: Partition, depth: int = 0) -> Iterator[tuple[int, Group]]:
    """Every group with its depth of nesting; those of loop bodies follow the loop."""
    for group in partition.groups:
        yield depth, group
        for body in group.anchor.op.bodies():
            if body in partition.inner:
                yield from groups(partition.inner[body], depth + 1)


def kernels_of(lowered: Lowered, group: Group) -> tuple[Kernel, ...]:
    """The kernels of a group, in order; none for an alias or a host step."""
    if is_alias(group) or group.kind in WITHOUT_KERNELS:
        return ()
    return tuple(step.kernel for step in lowered.schedules(group).launches)


def call_of(lowered: Lowered, group: Group) -> LibraryCall | None:
    """The library call that computes a group; None where there is none."""
    if is_alias(group) or group.kind in WITHOUT_KERNELS:
        return None
    return lowered.schedules(group).call


def work_of(kernels: tuple[Kernel, ...]) -> Work:
    """The total work of some kernels."""
    return Work(sum(k.work.flops for k in kernels), sum(k.work.bytes for k in kernels))


def fused(lowered: Lowered) -> str:
    """Every group: its kernels, what was fused and why, and its cost."""
    lines = []
    for number, (depth, group) in enumerate(groups(lowered.partition)):
        pad = "  " * depth
        kernels, call = kernels_of(lowered, group), call_of(lowered, group)
        work = call.work if call else work_of(kernels)
        # the library that is called, or the reason why none is
        note = lowered.schedules(group).note if kernels or call else ""
        names = ", ".join(k.name for k in kernels) or (
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
        if kernels and note:
            lines.append(f"{pad}   {note}")
        if kernels or call:
            lines.append(f"{pad}   {work.flops:,} flops, {work.bytes:,} bytes moved")
    return "\n".join(lines)


def schedules(lowered: Lowered) -> str:
    """The rewrites, the placements of values and the schedules of all groups' kernels, as the
    document that `--schedule` takes.
    """
    table = lowered.schedules.table()
    choices = named_choices(lowered.fused)
    titles = {
        name: f"{group.kind.value}: {', '.join(k.name for k in kernels_of(lowered, group))}"
        f" computes {', '.join(map(label, group.outputs))}"
        for name, (group, _) in table.items()
    }
    titles |= {name: f"{label(node)} {node.types}" for name, (node, _) in choices.items()}
    rewrites = lowered.choices.named()
    titles |= {name: f"{one.what}: {label(one.node)}" for name, one in rewrites.items()}
    places = {name: placement for name, (_, placement) in choices.items()}
    made = {name: one.applied for name, one in rewrites.items()}
    parts_by_group = {name: parts for name, (_, parts) in table.items()}
    head = f"Schedules of {lowered.model.name} for {lowered.target.name}: docs/SCHEDULES.md"
    return write(parts_by_group, titles, head, placements=places, rewrites=made)


def kernels(program: Program) -> str:
    """The text of every kernel, each once."""
    return "\n\n".join(show(k) for k in program.kernels)


def memory(program: Program) -> str:
    """Every slot and step, and the arena's size against its lower bound."""
    live = int(program.facts.get("live_bytes", program.arena_bytes))
    constants = sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
    lines = [
        show_program(program),
        f"arena: {program.arena_bytes:,} bytes; the most alive at once: {live:,} bytes",
        f"constants: {constants:,} bytes",
    ]
    return "\n".join(lines)
