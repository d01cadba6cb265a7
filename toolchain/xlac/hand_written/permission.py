"""Permission to compile hand-written kernels of a model, and which kernels a program calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xlac.fusion.group import Group, Kind, Partition
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops.control.custom_op import CustomOp, KernelFile
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.target import Target


def permitted(target: Target, model: Model) -> Target:
    """The target with the languages in which this model's kernels may be compiled.

    Raises SourceError where the model has a kernel for the target and it was not decided whether it
    may be compiled, or it is in a language that the target does not support.
    """
    if model.allow_kernels is False:
        return replace(target, languages=frozenset())
    kernels = dict.fromkeys(_kernels(model.graph, target))
    wrong = [d for kernel, node in kernels if (d := _refused(kernel, node, target, model))]
    if wrong:
        raise SourceError(*dict.fromkeys(wrong))
    return target if model.allow_kernels else replace(target, languages=frozenset())


def called(partition: Partition) -> Iterator[Group]:
    """The groups that are calls of hand-written kernels, those of bodies too."""
    for part in (partition, *partition.inner.values()):
        yield from (group for group in part.groups if group.kind is Kind.CUSTOM)
        if part is not partition:
            for inner in part.inner.values():
                yield from called(inner)


def notes(graph: Graph, target: Target) -> dict[str, list[str]]:
    """For operations that have kernels: the reason why each is computed by its reference graph, by
    the paths of nodes.
    """
    lines_by_path: dict[str, list[str]] = {}
    for node in graph.nodes():
        if isinstance(node.op, CustomOp):
            kernel = node.op.kernel(target.name)
            if kernel is None:
                why = f"no hand-written kernel for {target.name}"
            elif kernel.language not in target.languages:
                why = f"{kernel.file} is not permitted"
            else:
                continue
            line = f"'{node.op.name}' is computed by what it means: {why}"
            lines_by_path.setdefault(node.name, []).append(line)
        for body in node.op.bodies():
            for path, lines in notes(body, target).items():
                lines_by_path.setdefault(path, []).extend(lines)
    return lines_by_path


def _kernels(graph: Graph, target: Target) -> Iterator[tuple[KernelFile, Node]]:
    for node in graph.nodes():
        if isinstance(node.op, CustomOp):
            kernel = node.op.kernel(target.name)
            if kernel is not None:
                yield kernel, node
        for body in node.op.bodies():
            yield from _kernels(body, target)


def _refused(kernel: KernelFile, node: Node, target: Target, model: Model) -> Diagnostic | None:
    """Why a kernel is not compiled; None for one that may be."""
    assert isinstance(node.op, CustomOp)
    span = node.origin.span if node.origin else None
    if model.allow_kernels is None:
        problem = (
            f"'{node.op.name}' has a hand-written kernel for {target.name} "
            f"({kernel.file}, {kernel.place}), which is code and would be run"
        )
        hint = (
            "--allow-kernels compiles it (allow_kernels=True), --no-kernels computes the "
            "operation by its definition in the spec"
        )
        return Diagnostic("XL3032", problem, span, hint)
    if kernel.language not in target.languages:
        known = ", ".join(f".{name}" for name in sorted(target.languages)) or "none"
        problem = f"the target {target.name} takes no .{kernel.language} ({kernel.place})"
        return Diagnostic("XL3033", problem, span, f"it takes: {known}")
    return None
