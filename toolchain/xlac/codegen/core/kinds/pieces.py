"""The pieces of the concatenations that a group writes, and which of them share a loop nest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xlac.codegen.core.addressing import row_major
from xlac.fusion.cluster import is_pointwise
from xlac.fusion.group import Group, is_immediate
from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ops.tensor import extend
from xlac.ops.tensor.view import Reshape, Slice
from xlac_sdk.support.limits import count_work

TOGETHER = 64  # most pieces that share a nest, each of which is a store


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """`value` at an index is stored to `output` at an offset, plus the index by these element
    strides.
    """

    value: Node
    output: Node
    offset: Dim
    strides: Shape


def pieces_of(output: Node, group: Group) -> list[StoredPiece]:
    """What is stored to an output: itself, or the pieces of a concatenation, those of its own
    pieces included.
    """
    whole = StoredPiece(output, output, 0, row_major(output.shape))
    pieces = list(_pieces(whole, group)) or [whole]
    alike: dict[Shape, list[StoredPiece]] = {}
    for piece in pieces:
        alike.setdefault(piece.value.shape, []).append(piece)
    return [one for same in alike.values() for one in _before_reshapes(same, group)]


def _pieces(whole: StoredPiece, group: Group) -> Iterator[StoredPiece]:
    """The pieces of a value if it is a concatenation that the group computes; through reshapes."""
    count_work()
    node, offset, strides = whole.value, whole.offset, whole.strides
    if node not in group.members:
        return
    if isinstance(node.op, Reshape):
        (inner,) = node.inputs
        steps = strides_before(inner.shape, node.shape, strides)
        if steps is not None:
            yield from _pieces(StoredPiece(inner, whole.output, offset, steps), group)
    elif isinstance(node.op, extend.Concat) and node.shape[node.op.axis] not in (0, 1):
        for part in node.inputs:
            piece = StoredPiece(part, whole.output, offset, strides)
            yield from list(_pieces(piece, group)) or [piece]
            offset = offset + part.shape[node.op.axis] * strides[node.op.axis]


def _before_reshapes(pieces: list[StoredPiece], group: Group) -> list[StoredPiece]:
    """Pieces of one shape as what is reshaped to them where that has one shape again, so that
    pieces that are computed at one index are seen to be.
    """
    before = [_before_reshape(piece, group) for piece in pieces]
    shapes = {None if piece is None else piece.value.shape for piece in before}
    if None in shapes or len(shapes) > 1 or pieces[0].value is pieces[0].output:
        return pieces
    return _before_reshapes([piece for piece in before if piece is not None], group)


def _before_reshape(piece: StoredPiece, group: Group) -> StoredPiece | None:
    node = piece.value
    if not isinstance(node.op, Reshape) or node not in group.members:
        return None
    (inner,) = node.inputs
    steps = strides_before(inner.shape, node.shape, piece.strides)
    return None if steps is None else replace(piece, value=inner, strides=steps)


def strides_before(before: Shape, after: Shape, strides: Shape) -> Shape | None:
    """The strides of a tensor before it is reshaped from those after, if it has any."""
    if strides == row_major(after):
        return row_major(before)
    steps: list[Dim] = []
    ends = [(after[a], strides[a]) for a in range(len(after)) if after[a] != 1]
    for size in reversed(before):
        if size == 1:
            steps.append(0)
            continue
        if not ends:
            return None
        have, step = ends.pop()
        steps.append(step)
        while isinstance(have, int) and isinstance(size, int) and have < size and ends:
            more, wide = ends.pop()
            if wide != step * have:
                return None
            have = have * more
        if have != size:
            if not isinstance(have, int) or not isinstance(size, int) or have % size:
                return None
            ends.append((have // size, step * size))
    return None if ends else tuple(reversed(steps))


def sharing(pieces: Sequence[StoredPiece], group: Group) -> list[tuple[StoredPiece, ...]]:
    """The pieces of one shape in sets that neither compute nor read a value in common at one index:
    such as the numbers of a butterfly, or the two parts of a complex product.
    """
    owner: dict[Node, int] = {}  # the first piece that needs a value
    leader = list(range(len(pieces)))

    def find(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    for number, piece in enumerate(pieces):
        stack = [piece.value]
        while stack:
            node = stack.pop()
            if node.shape != piece.value.shape or is_immediate(node):
                continue
            count_work()
            if node in owner:
                first, second = sorted((find(owner[node]), find(number)))
                leader[second] = first
            elif node not in group.members or is_pointwise(node) or isinstance(node.op, Slice):
                owner[node] = number
                stack += node.inputs if node in group.members else ()
    sets: dict[int, list[StoredPiece]] = {}
    for number, piece in enumerate(pieces):
        sets.setdefault(find(number), []).append(piece)
    return [
        tuple(together[n : n + TOGETHER])
        for together in map(_in_order, sets.values())
        for n in range(0, len(together), TOGETHER)
    ]


def _in_order(pieces: list[StoredPiece]) -> list[StoredPiece]:
    """Pieces in the order of memory, so that neighbours are stored together."""
    return sorted(pieces, key=lambda p: p.offset if isinstance(p.offset, int) else 0)


def interleaved(pieces: Sequence[StoredPiece]) -> bool:
    """Whether the pieces are single elements in turn."""
    count, shape = len(pieces), pieces[0].value.shape
    return volume(shape) * count == pieces[0].output.type.size and all(
        piece.offset == number and piece.value.shape == shape for number, piece in enumerate(pieces)
    )


def in_turn(
    pieces: Sequence[StoredPiece], most: int
) -> tuple[list[tuple[StoredPiece, ...]], list[StoredPiece]]:
    """Runs of at most `most` pieces that fill a part of the output in turn, as the channels of an
    image fill what its border leaves of it; and all other pieces.
    """
    alike: dict[tuple[Shape, Shape], list[StoredPiece]] = {}
    for piece in pieces:
        alike.setdefault((piece.value.shape, piece.strides), []).append(piece)
    runs: list[tuple[StoredPiece, ...]] = []
    for (shape, strides), same in alike.items():
        steps = [step for size, step in zip(shape, strides, strict=True) if size != 1]
        count = steps[-1] if steps else 0
        if not isinstance(count, int) or not 2 <= count <= most:
            continue
        by_offset = {piece.offset: piece for piece in same if isinstance(piece.offset, int)}
        for start in sorted(by_offset):
            run = [by_offset[start + n] for n in range(count) if start + n in by_offset]
            if len(run) == count and not any(one in taken for taken in runs for one in run):
                runs.append(tuple(run))
    taken = {piece for run in runs for piece in run}
    return runs, [piece for piece in pieces if piece not in taken]
