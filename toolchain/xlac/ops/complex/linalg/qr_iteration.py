"""Hessenberg matrices made triangular by the QR iteration with implicit shifts, as LAPACK's lahqr.

Each sweep takes the lowest block of each matrix of a batch that is not finished, and moves a bulge
down its subdiagonal by small reflections: of three rows for real matrices, two of whose shifts are
conjugate, and of two rows for complex ones. What a sweep leaves below the diagonal becomes 0 where
it is small, which divides the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg.deflation import OpenBlock, deflated, lines, reflected
from xlac.ops.complex.linalg.numbers import Numbers, back, each, rank, real, select
from xlac.ops.complex.linalg.reflections import reflection
from xlac.ops.complex.linalg.shifts import AT_TOP, double_shift, single_shift
from xlac.ops.control.control import While
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac_sdk.dtypes import DType

SWEEPS = 30  # at most, for each row; two or three suffice
# Rows and columns of zeros after a matrix: for a bulge that ends below the last row, and so that
# the numbers of a column, 2^k apart, do not share a set of a cache.
MORE = 1
PART = 40  # rows whose moves are code of their own, and so cheaper
MOST_PARTS = 4


def iterated(h: Numbers, z: Numbers) -> tuple[Numbers, Numbers, Node]:
    """T, and Z* from that of h: triangular, but for blocks of two rows of real matrices, with
    Z T Z* as before; and whether each matrix was finished.
    """
    size, width = h[0].shape[-1], reflected(h)
    assert isinstance(size, int)
    if size < width:
        return h, z, build.full(True, h[0].shape[:-2], DType.BOOL)
    count, last = len(h), rank(h)

    def padded(x: Node, columns: int) -> Node:
        return build.pad(x, 0.0, [0] * last, [*[0] * (last - 2), MORE, columns])

    h, window = deflated(each(lambda x: padded(x, MORE), h), size)
    z = each(lambda x: padded(x, 0), z)
    since = build.full(0, h[0].shape[:-2], DType.I32)

    def goes_on(*carried: Node) -> Node:
        left = OpenBlock(*carried[2 * count : 2 * count + 2]).active()
        few = build.compare(carried[-1], "lt", SWEEPS * max(10, size))
        return build.apply1("and", _over_batch(left, "or"), few)

    def sweep(*carried: Node) -> list[Node]:
        h, z = carried[:count], carried[count : 2 * count]
        window = OpenBlock(*carried[2 * count : 2 * count + 2])
        since, total = carried[-2:]
        h, z = _swept(h, z, window, size, since)
        h, after = deflated(h, size)
        same = build.compare(after.last, "eq", window.last)
        same = build.apply1("and", same, build.compare(since, "lt", 2 * AT_TOP - 1))
        since = build.select(same, build.add(since, 1), 0)
        return [*h, *z, after.first, after.last, since, build.add(total, 1)]

    state = [*h, *z, window.first, window.last, since, build.constant(0, DType.I32)]
    found = _while(goes_on, sweep, state)
    h, z = (
        each(lambda x: build.cut(x, last - 2, 0, size), tuple(found[n * count : (n + 1) * count]))
        for n in (0, 1)
    )
    done = build.apply1("not", OpenBlock(*found[2 * count : 2 * count + 2]).active())
    return each(lambda x: build.cut(x, last - 1, 0, size), h), z, done


def _while(
    condition: Callable[..., Node], body: Callable[..., list[Node]], first: Sequence[Node]
) -> Sequence[Node]:
    """The values after a loop."""
    types = [f.type for f in first]
    loop = While(build.graph("left", types, condition), build.graph("step", types, body))
    return build.results(Node.of(loop, *first))


def _over_batch(x: Node, how: str) -> Node:
    """One number of all matrices."""
    return build.reduce(x, how, tuple(range(x.type.rank))) if x.type.rank else x


def _swept(
    h: Numbers, z: Numbers, window: OpenBlock, size: int, since: Node
) -> tuple[Numbers, Numbers]:
    """The matrices after one sweep of their blocks."""
    count = len(h)
    shift = double_shift if reflected(h) == 3 else single_shift
    start = shift(*lines(h, size), window.first, window.last, since)
    first, end = _over_batch(window.first, "min"), _over_batch(window.last, "max")
    state = [first, end, window.first, window.last, *h, *z, *start]
    for part in _parts(size):
        state = list(_chased_within(part, state, count))
    return tuple(state[4 : 4 + count]), tuple(state[4 + count : 4 + 2 * count])


def _parts(size: int) -> list[range]:
    """The rows from which a bulge is moved, in parts. What is above and left of a part, or below
    it, need not be touched there, so that four parts take five eighths of the time of one.
    """
    count = min(MOST_PARTS, -(-size // PART))
    bounds = [size * n // count for n in range(count + 1)]
    return [range(*pair) for pair in pairwise(bounds)]


def _chased_within(part: range, state: Sequence[Node], count: int) -> Sequence[Node]:
    """The state of a sweep after the moves from the rows of a part."""

    def goes_on(number: Node, end: Node, *_: Node) -> Node:
        return build.compare(number, "lt", build.minimum(end, part.stop))

    def step(*carried: Node) -> list[Node]:
        number, end, low, high, *rest = carried
        h, z, start = (tuple(rest[n * count : (n + 1) * count]) for n in range(3))
        moved = _chased(h, z, start, OpenBlock(low, high), number, part)
        return [build.add(number, 1), end, low, high, *moved, *start]

    return _while(goes_on, step, state)


def _chased(
    h: Numbers, z: Numbers, start: Numbers, window: OpenBlock, number: Node, part: range
) -> tuple[Node, ...]:
    """The matrices with the bulge moved from row `number`, one of `part`, on by one row; `start`
    (…, 2 or 3) are the columns that begin it.
    """
    batch, width, last = h[0].shape[:-2], reflected(h), rank(h)
    height, size = h[0].shape[-2:]
    assert isinstance(height, int) and isinstance(size, int)
    left, below = max(part.start - 1, 0), min(part.stop + width, height)
    before = build.maximum(build.sub(number, 1), 0)
    head = build.compare(window.first, "eq", number)
    on = build.apply1(
        "and", build.compare(window.first, "le", number), build.compare(window.last, "gt", number)
    )

    def wide(x: Node, shape: Shape) -> Node:
        return build.back(x, shape, range(len(batch), len(shape)))

    column = _at(h, number, before, (width, 1))
    column = each(lambda x: build.reshape(x, (*batch, width)), column)
    column = select(wide(head, column[0].shape), start, column)
    column = select(wide(on, column[0].shape), column, real(0.0, column))
    found = reflection(column, build.constant(0, DType.I64))
    rows = _at(h, number, left, (width, size - left))
    shape = rows[0].shape
    made = select(
        build.compare(build.iota(column[0].shape, last - 2), "eq", 0),
        found.packed,
        real(0.0, column),
    )
    known = build.apply1("and", on, build.apply1("not", head))
    place = build.add(build.iota(shape, last - 1), left)
    known = build.apply1("and", wide(known, shape), build.compare(place, "eq", before))
    rows = select(known, back(made, shape, (last - 1,)), found.adjoint_times(rows))
    h = _put(h, rows, number, left)
    columns = found.after(_at(h, 0, number, (below, width)))
    h = _put(h, columns, 0, number)
    rows = found.adjoint_times(_at(z, number, 0, (width, z[0].shape[-1])))
    return *h, *_put(z, rows, number, 0)


def _starts(x: Numbers, row: Node | int, column: Node | int) -> list[Node]:
    places = [*[0] * (rank(x) - 2), row, column]
    return [build.constant(n, DType.I64) if isinstance(n, int) else n for n in places]


def _at(x: Numbers, row: Node | int, column: Node | int, sizes: Shape) -> Numbers:
    """The part of matrices, of these sizes, from a row and a column on."""
    op = DynSlice((*x[0].shape[:-2], *sizes))
    return each(lambda part: Node.of(op, part, *_starts(x, row, column)), x)


def _put(x: Numbers, value: Numbers, row: Node | int, column: Node | int) -> Numbers:
    """Matrices with a part replaced."""
    starts = _starts(x, row, column)
    return tuple(
        Node.of(DynUpdate(), part, new, *starts) for part, new in zip(x, value, strict=True)
    )
