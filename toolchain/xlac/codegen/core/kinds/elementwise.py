"""Elementwise groups: which outputs share a loop nest, and the stores of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac.codegen.core.access_analysis import Survey
from xlac.codegen.core.addressing import linear, plain
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.kinds.pieces import StoredPiece, in_turn, interleaved, pieces_of, sharing
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.support.limits import count_work


@dataclass(frozen=True, slots=True)
class Job:
    """One loop nest: what is stored for every index of its shape."""

    shape: Shape
    stores: tuple[StoredPiece, ...]


def jobs(group: Group, woven: int = 0) -> list[Job]:
    """Outputs of one shape share a nest. A concatenation has one for each piece, or for pieces that
    compute values in common; at most `woven` pieces that are single elements of the last axis share
    one.
    """
    whole: dict[Shape, list[StoredPiece]] = {}
    parts: dict[Shape, list[StoredPiece]] = {}
    woven_jobs: list[Job] = []
    for node in group.outputs:
        pieces = pieces_of(node, group)
        if len(pieces) == 1 and pieces[0].value is node:
            whole.setdefault(node.shape, []).extend(pieces)
        elif len(pieces) <= woven and interleaved(pieces):
            woven_jobs.append(Job(pieces[0].value.shape, tuple(pieces)))
        else:
            together, others = in_turn(pieces, woven)
            woven_jobs += [Job(run[0].value.shape, run) for run in together]
            for piece in others:
                parts.setdefault(piece.value.shape, []).append(piece)
    return [
        *(Job(shape, tuple(stores)) for shape, stores in whole.items()),
        *woven_jobs,
        *(
            Job(shape, together)
            for shape, pieces in parts.items()
            for together in sharing(pieces, group)
        ),
    ]


def store(
    elements: Elements, index: Index, stores: Sequence[StoredPiece], *, streaming: bool
) -> None:
    """Computes all values before any store, so that an output may share memory with an input."""
    count_work()
    values = [elements.at(one.value, index) for one in stores]
    for one, value in zip(stores, values, strict=True):
        where = build.add(linear(plain(index), one.strides, one.value.shape), one.offset)
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
