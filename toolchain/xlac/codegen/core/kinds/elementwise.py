"""Elementwise groups: which outputs share a loop nest, and the stores of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlac.codegen.core.access_analysis import Survey
from xlac.codegen.core.addressing import linear, plain, row_major
from xlac.codegen.core.elements import Elements
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.tensor import extend
from xlac.ops.tensor.view import Reshape
from xlac_sdk.kernel_ir import build
from xlac_sdk.support.limits import count_work


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """`value` at an index is stored to `output` at that index plus `shift`, by the strides of
    `shape`: that of the output, or one before reshapes.
    """

    value: Node
    output: Node
    shift: Shape
    shape: Shape


@dataclass(frozen=True, slots=True)
class Job:
    """One loop nest: what is stored for every index of its shape."""

    shape: Shape
    stores: tuple[StoredPiece, ...]


def jobs(group: Group, woven: int = 0) -> list[Job]:
    """Outputs of one shape share a nest; a concatenation has one for each piece. At most `woven`
    pieces that are single elements of the last axis share one.
    """
    by_shape: dict[Shape, list[StoredPiece]] = {}
    pieces: list[Job] = []
    for node in group.outputs:
        joined = _before_reshapes(node, group)
        shape = joined.shape
        if isinstance(joined.op, extend.Concat) and shape[joined.op.axis] not in (0, 1):
            start: Dim = 0
            parts = list[StoredPiece]()
            for part in joined.inputs:
                shift = tuple(start if a == joined.op.axis else 0 for a in range(len(shape)))
                parts.append(StoredPiece(part, node, shift, shape))
                start = start + part.shape[joined.op.axis]
            single = all(part.shape[joined.op.axis] == 1 for part in joined.inputs)
            if single and len(parts) <= woven and volume(shape[joined.op.axis + 1 :]) == 1:
                pieces.append(Job(joined.inputs[0].shape, tuple(parts)))
            else:
                pieces += [job for part in parts for job in _pieces(part, group)]
        else:
            whole = StoredPiece(node, node, (0,) * len(node.shape), node.shape)
            by_shape.setdefault(node.shape, []).append(whole)
    return [Job(shape, tuple(stores)) for shape, stores in by_shape.items()] + pieces


def _pieces(part: StoredPiece, group: Group) -> list[Job]:
    """The nests of a part of a concatenation: of its own parts, if it is a concatenation that the
    group computes.
    """
    joined, shift = part.value, part.shift
    if not isinstance(joined.op, extend.Concat) or joined not in group.members:
        return [Job(joined.shape, (part,))]
    jobs_of_parts: list[Job] = []
    for piece in joined.inputs:
        jobs_of_parts += _pieces(replace(part, value=piece, shift=shift), group)
        along = piece.shape[joined.op.axis]
        shift = tuple(s + along if a == joined.op.axis else s for a, s in enumerate(shift))
    return jobs_of_parts


def _before_reshapes(node: Node, group: Group) -> Node:
    """The node beneath reshapes within the group, whose elements are the same in the same order."""
    while isinstance(node.op, Reshape) and node.inputs[0] in group.members:
        (node,) = node.inputs
    return node


def store(
    elements: Elements, index: Index, stores: Sequence[StoredPiece], *, streaming: bool
) -> None:
    """Computes all values before any store, so that an output may share memory with an input."""
    count_work()
    values = [elements.at(one.value, index) for one in stores]
    for one, value in zip(stores, values, strict=True):
        moved = tuple(build.add(i, s) if s else i for i, s in zip(index, one.shift, strict=True))
        where = linear(plain(moved), row_major(one.shape), one.shape)
        elements.store_to(elements.parameter(one.output), where, value, streaming=streaming)


def overwritten(nests: Sequence[tuple[Elements, Survey]]) -> list[tuple[Node, Node]]:
    """Pairs of an output and an input that it may overwrite: only one nest reads the input, and
    only where it writes. Their shapes may differ by a reshape.
    """
    pairs = []
    readers: dict[object, list[tuple[Elements, Survey]]] = {}
    for dry, survey in nests:
        touched = {access.buffer for access in survey.accesses}
        for value, buffer in dry.used().items():
            if buffer in touched:
                readers.setdefault(value, []).append((dry, survey))
    for node in nests[0][0].group.inputs if nests else ():
        if is_immediate(node) or len(readers.get(node, ())) != 1:
            continue
        ((dry, survey),) = readers[node]
        for output in dry.group.outputs:
            written = survey.exact(dry.parameter(output))  # none if the output is empty
            same = all(
                a.strides == w.strides and a.offset == w.offset and not a.opaque
                for a in survey.exact(dry.parameter(node))
                for w in written[:1]
            )
            if written and same and node.type.fills(output.type):
                pairs.append((output, node))
    return pairs
