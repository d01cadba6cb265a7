"""Elementwise groups: which outputs share a loop nest, and how their elements are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Survey
from xlac.codegen.core.elements import Elements
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.tensor import extend
from xlac_sdk.kernel_ir import build
from xlac_sdk.support.limits import went


@dataclass(frozen=True, slots=True)
class Job:
    """One nest: `value` at every index of its shape goes to `output` at that index plus `shift`."""

    shape: Shape
    stores: tuple[tuple[Node, Node, Shape], ...]  # value, output, shift an axis


def jobs(group: Group) -> list[Job]:
    """Outputs of one shape share a nest; a concatenation has one for each piece."""
    by_shape: dict[Shape, list[tuple[Node, Node, Shape]]] = {}
    pieces: list[Job] = []
    for node in group.outputs:
        shape = node.shape
        if isinstance(node.op, extend.Concat) and shape[node.op.axis] not in (0, 1):
            start: Dim = 0
            for part in node.inputs:
                shift = tuple(start if a == node.op.axis else 0 for a in range(len(shape)))
                pieces.append(Job(part.shape, ((part, node, shift),)))
                start = start + part.shape[node.op.axis]
        else:
            by_shape.setdefault(shape, []).append((node, node, (0,) * len(shape)))
    return [Job(shape, tuple(stores)) for shape, stores in by_shape.items()] + pieces


def store(
    elements: Elements, index: Index, stores: Sequence[tuple[Node, Node, Shape]], *, streaming: bool
) -> None:
    """All values before any store, so that an output may take the place of an input."""
    went()
    values = [elements.at(value, index) for value, _, _ in stores]
    for (_, output, shift), value in zip(stores, values, strict=True):
        moved = tuple(build.add(i, s) if s else i for i, s in zip(index, shift, strict=True))
        elements.store(output, moved, value, streaming=streaming)


def overwritten(nests: Sequence[tuple[Elements, Survey]]) -> list[tuple[Node, Node]]:
    """Outputs that may overwrite an input: one nest alone reads it, only at the index that it is
    writing.
    """
    found = []
    for node in nests[0][0].group.inputs if nests else ():
        if is_immediate(node):
            continue
        readers = [(dry, survey) for dry, survey in nests if survey.exact(dry.parameter(node))]
        if len(readers) != 1:
            continue
        ((dry, survey),) = readers
        for output in dry.group.outputs:
            written = survey.exact(dry.parameter(output))  # nothing, where an axis has no extent
            same = all(
                a.strides == w.strides and a.offset == w.offset and not a.opaque
                for a in survey.exact(dry.parameter(node))
                for w in written[:1]
            )
            if written and same and node.type == output.type:
                found.append((output, node))
    return found
