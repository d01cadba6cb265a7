"""Elementwise groups: which outputs share a loop nest, and the stores of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Survey
from xlac.codegen.core.elements import Elements
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.tensor import extend
from xlac_sdk.kernel_ir import build
from xlac_sdk.support.limits import went


@dataclass(frozen=True, slots=True)
class Job:
    """One loop nest: `value` at every index of its shape is stored to `output` at that index plus
    `shift`.
    """

    shape: Shape
    stores: tuple[tuple[Node, Node, Shape], ...]  # (value, output, shift along each axis)


def jobs(group: Group, woven: int = 0) -> list[Job]:
    """Outputs of one shape share a nest; a concatenation has one for each piece. At most `woven`
    pieces that are single elements of the last axis share one.
    """
    by_shape: dict[Shape, list[tuple[Node, Node, Shape]]] = {}
    pieces: list[Job] = []
    for node in group.outputs:
        shape = node.shape
        if isinstance(node.op, extend.Concat) and shape[node.op.axis] not in (0, 1):
            start: Dim = 0
            parts = list[tuple[Node, Node, Shape]]()
            for part in node.inputs:
                shift = tuple(start if a == node.op.axis else 0 for a in range(len(shape)))
                parts.append((part, node, shift))
                start = start + part.shape[node.op.axis]
            single = all(part.shape[node.op.axis] == 1 for part in node.inputs)
            if single and len(parts) <= woven and volume(shape[node.op.axis + 1 :]) == 1:
                pieces.append(Job(node.inputs[0].shape, tuple(parts)))
            else:
                pieces += [job for part, _, at in parts for job in _pieces(part, node, at, group)]
        else:
            by_shape.setdefault(shape, []).append((node, node, (0,) * len(shape)))
    return [Job(shape, tuple(stores)) for shape, stores in by_shape.items()] + pieces


def _pieces(part: Node, output: Node, shift: Shape, group: Group) -> list[Job]:
    """The nests of a part of a concatenation: of its own parts, if it is a concatenation that the
    group computes.
    """
    if not isinstance(part.op, extend.Concat) or part not in group.members:
        return [Job(part.shape, ((part, output, shift),))]
    found: list[Job] = []
    for piece in part.inputs:
        found += _pieces(piece, output, shift, group)
        along = piece.shape[part.op.axis]
        shift = tuple(s + along if a == part.op.axis else s for a, s in enumerate(shift))
    return found


def store(
    elements: Elements, index: Index, stores: Sequence[tuple[Node, Node, Shape]], *, streaming: bool
) -> None:
    """Computes all values before any store, so that an output may share memory with an input."""
    went()
    values = [elements.at(value, index) for value, _, _ in stores]
    for (_, output, shift), value in zip(stores, values, strict=True):
        moved = tuple(build.add(i, s) if s else i for i, s in zip(index, shift, strict=True))
        elements.store(output, moved, value, streaming=streaming)


def overwritten(nests: Sequence[tuple[Elements, Survey]]) -> list[tuple[Node, Node]]:
    """Pairs of an output and an input that it may overwrite: only one nest reads the input, and
    only at the index being written.
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
            written = survey.exact(dry.parameter(output))  # none if the output is empty
            same = all(
                a.strides == w.strides and a.offset == w.offset and not a.opaque
                for a in survey.exact(dry.parameter(node))
                for w in written[:1]
            )
            if written and same and node.type == output.type:
                found.append((output, node))
    return found
