"""Explains each node of the user's spec: its kernels, what they share, which values pass through
memory, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xlac.codegen.schedules.digest import digest
from xlac.codegen.schedules.document import fields_of
from xlac.debug.decisions import call_of, groups, kernels_of, work_of
from xlac.debug.explain.absorbed import Absorbed, absorbed
from xlac.driver import Lowered
from xlac.fusion.group import WITHOUT_KERNELS, Group, Kind
from xlac.fusion.partition import is_alias
from xlac.hand_written.permission import notes
from xlac.ir.graph import Graph, Node
from xlac.ops.control.control import Pick
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor import leaf, view
from xlac_sdk.support.counts import number_of

TOGETHER = {
    Kind.ELEMENTWISE: "one loop computes each element; nothing between is written to memory",
    Kind.ROWS: "the reductions cross the same elements, which stay in cache from one to the next",
    Kind.REDUCE: "what is reduced is computed while it is read",
    Kind.DOT: "what follows the dot is done before its results leave the registers",
    Kind.CONV: "what follows the convolution is done before its results leave the registers",
    Kind.WINDOW: "what follows the window is done before its results leave the registers",
    Kind.SCATTER: "updates are computed where they are added",
    Kind.UPDATE: "the new part is computed where it is written",
    Kind.CUMULATIVE: "elements are computed while the running total passes them",
}
REDUCES = {"add": "sum", "mul": "product", "body": "reduce"}


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """An entry of the spec: its operations and the type of its value."""

    path: str
    operations: tuple[str, ...]
    types: str


def written(graph: Graph) -> dict[str, WrittenEntry]:
    """The entries of the spec by path, in order; those of bodies follow the loop that contains
    them.
    """
    entries: dict[str, WrittenEntry] = {}
    for node in graph.nodes():
        if node.name and not isinstance(node.op, leaf.Param | leaf.Const | Pick):
            before = entries.get(node.name)
            names = dict.fromkeys((*(before.operations if before else ()), node.op.mnemonic))
            entries[node.name] = WrittenEntry(
                node.name, tuple(names), ", ".join(map(str, node.results))
            )
        for body in node.op.bodies():
            for path, entry in written(body).items():
                entries.setdefault(path, entry)
    return entries


def tell(
    lowered: Lowered,
    source: Graph,
    name: str | None = None,
    control: Mapping[str, str] | None = None,
    schedules: bool = False,
) -> str:
    """The explanation of every entry of `source`, the graph as it was loaded; or of `name` and its
    contents.

    With `schedules` the schedule of each kernel is included. `control` has, by mnemonic, what runs
    loops and branches where that is not the host.
    """
    entries = {
        p: e
        for p, e in written(source).items()
        if name is None or p == name or p.startswith(f"{name}.")
    }
    every = [group for _, group in groups(lowered.partition)]
    of_path = homes(every)
    gone = absorbed(source, of_path) if any(path not in of_path for path in entries) else {}
    lines: list[str] = []
    by_hand = notes(source, lowered.target)
    for path, entry in entries.items():
        lines.append(f"{path}: {', '.join(entry.operations)} -> {entry.types}")
        lines += (f"    {line}" for line in dict.fromkeys(by_hand.get(path, ())))
        mine = of_path.get(path, [])
        if not mine:
            lines.append(f"    {_no_kernel(lowered, of_path, gone[path])}")
        for group in mine:
            lines += (f"    {line}" for line in _group(lowered, group, path, control or {}))
            if schedules:
                lines += (f"      {line}" for line in _schedules(lowered, group))
    if lines and name is None:
        program = lowered.program
        lines.append(
            f"in all: {number_of(len(program.kernels), 'kernel')}, "
            f"{program.work.flops:,} flops a call, "
            f"an arena of {program.arena_bytes:,} bytes"
        )
        if "recomputed" in program.facts:
            again = program.facts["recomputed"]
            values = f"{sum(again['nodes'].values())} values"
            loops = ", ".join(again.get("carries", {}))
            what = f"{values}, and steps of {loops}," if loops else values
            lines.append(
                f"to stay within the limit of memory {what} are "
                f"computed again, which takes about {100 * (again['factor'] - 1):.1f} % longer"
            )
            if again.get("sums_reordered"):
                lines.append("sums are in another order than without the limit")
    return "\n".join(lines)


def _no_kernel(lowered: Lowered, of_path: Mapping[str, Sequence[Group]], absorbed: Absorbed) -> str:
    """Why a path has no kernel, with the kernels of the neighbours that it became part of."""
    if absorbed.known:
        return "no kernel: computed at compile time, from weights and constants"
    if not absorbed.neighbours:
        return "no kernel: simplified away"
    near = []
    for path in absorbed.neighbours:
        names = dict.fromkeys(k.name for g in of_path[path] for k in kernels_of(lowered, g))
        near.append(f"{path} ({', '.join(names)})" if names else path)
    return f"no kernel of its own: simplified into its neighbours {', '.join(near)}"


def homes(every: Iterable[Group]) -> dict[str, list[Group]]:
    """The groups that compute each path; those that only view memory, for a path without others."""
    work: dict[str, dict[Group, None]] = {}
    views: dict[str, dict[Group, None]] = {}
    for group in every:
        for node in group.nodes:
            if node.name:
                (views if _is_view(node) else work).setdefault(node.name, {})[group] = None
    return {path: list(work.get(path) or views[path]) for path in {**work, **views}}


def _is_view(node: Node) -> bool:
    """Whether a node only reorders or reshapes values."""
    return isinstance(node.op, view.Reshape | view.Broadcast | view.Transpose | view.Slice | Pick)


def _group(lowered: Lowered, group: Group, path: str, control: Mapping[str, str]) -> Iterator[str]:
    kernels, call = kernels_of(lowered, group), call_of(lowered, group)
    if is_alias(group):
        yield "no kernel: the same memory under another shape"
        return
    if not kernels and not call:
        mnemonic = group.anchor.op.mnemonic
        inside = ", its kernels are told inside" if group.kind is Kind.CONTROL else ""
        yield f"{control.get(mnemonic, 'steps of the host')}: {mnemonic}{inside}"
        return
    by_path: dict[str, list[Node]] = {}
    for node in group.nodes:
        by_path.setdefault(node.name, []).append(node)
    others = [
        f"{other or 'the compiler'} ({_words(nodes)})"
        for other, nodes in by_path.items()
        if other != path and (not all(map(_is_view, nodes)) or not other)
    ]
    names = (
        f"{'kernels' if len(kernels) > 1 else 'kernel'} {', '.join(k.name for k in kernels)}"
        if kernels
        else lowered.schedules(group).note
    )
    yield f"{names} ({_words(by_path.get(path, ()))})" + (
        f", fused with {', '.join(others)}" if others else ""
    )
    _, *notes = group.reason.split("; ")
    reasons = [TOGETHER[group.kind]] if group.kind in TOGETHER and count(group.nodes) > 1 else []
    if reasons or notes:
        yield f"  why: {'; '.join([*reasons, *notes])}"
    if kernels and (note := lowered.schedules(group).note):
        yield f"  {note}"
    yield from _memory(group)
    work = call.work if call else work_of(kernels)
    yield f"  {work.flops:,} flops, {work.bytes:,} bytes moved"


def _schedules(lowered: Lowered, group: Group) -> Iterator[str]:
    """The schedules of a group's kernels, part by part, under the name of its structure."""
    if is_alias(group) or group.kind in WITHOUT_KERNELS:
        return
    schedules = lowered.schedules(group).schedules
    if schedules:
        yield f"schedules of {digest(group)}:"
    for part, one in schedules.items():
        yield f"  {part}:"
        yield from (f"    {line}" for line in fields_of(one))


def _memory(group: Group) -> Iterator[str]:
    """Why the values that this group reads are not computed in it, and why those that it writes are
    needed in memory.
    """
    reads, writes = barriers(group)
    for verb, reasons in (("reads", reads), ("writes", writes)):
        for why, labels in reasons.items():
            yield (
                f"  {verb} {', '.join(labels)} {'from' if verb == 'reads' else 'to'} memory: {why}"
            )


def barriers(group: Group) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What the group reads from memory, and what it writes there, by the reason why."""
    reads: dict[str, dict[str, None]] = {}
    writes: dict[str, dict[str, None]] = {}
    for node, why in group.barriers.items():
        (writes if node in group else reads).setdefault(why, {})[_label(node)] = None
    return {w: [*v] for w, v in reads.items()}, {w: [*v] for w, v in writes.items()}


def _label(node: Node) -> str:
    return f"{node.name or 'a value'} ({_word(node)})"


def _word(node: Node) -> str:
    if isinstance(node.op, Reduce):
        return REDUCES.get(node.op.combine, node.op.combine)
    return node.op.mnemonic


def _words(nodes: Sequence[Node]) -> str:
    """The names of operations, each once and in order; views only where there is nothing else."""
    done = [node for node in nodes if not _is_view(node)] or nodes
    return ", ".join(dict.fromkeys(map(_word, done)))


def count(nodes: Sequence[Node]) -> int:
    """How many nodes compute something; views do not."""
    return sum(not _is_view(node) for node in nodes)
