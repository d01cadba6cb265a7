"""Shifts of the QR iteration: where a bulge begins, from the numbers at the end of a block."""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.arithmetic import div, mul
from xlac.ops.complex.linalg.numbers import Numbers, each, magnitude, real, scaled, select
from xlac.ops.complex.logarithm import sqrt
from xlac.ops.complex.parts import Parts, where

AT_TOP = 10  # sweeps in which a block did not get smaller, after which a shift is made up


def _value(x: Numbers, number: Node) -> Numbers:
    """One number of each row (…, n), at places (…)."""
    shape, axis = x[0].shape, x[0].type.rank - 1
    here = build.compare(build.iota(shape, axis), "eq", build.back(number, shape, (axis,)))
    return each(lambda part: build.reduce(build.select(here, part, 0.0), "add", axis), x)


def _size(x: Node) -> Node:
    return build.apply1("abs", x)


def _made_up(since: Node) -> tuple[Node, Node]:
    """Whether the shift is made up from the first rows of the block, or from the last."""
    return build.compare(since, "eq", AT_TOP - 1), build.compare(since, "eq", 2 * AT_TOP - 1)


def double_shift(
    d: Numbers, below: Numbers, above: Numbers, first: Node, last: Node, since: Node
) -> Numbers:
    """The first three numbers of the first column of (H - s)(H - t), for the eigenvalues s and t of
    the last two rows of a real block; where they are real, the one nearer to the last number for
    both. d (…, n) is the diagonal, `below` and `above` (…, n - 1) those beside it.
    """
    top, bottom = _made_up(since)

    def at(x: Numbers, place: Node, plus: int = 0) -> Node:
        return _value(x, build.add(place, plus))[0]

    a, b, c, e = at(d, last, -1), at(above, last, -1), at(below, last, -1), at(d, last)
    near = build.add(_size(c), _size(at(below, last, -2)))
    far = build.add(_size(at(below, first)), _size(at(below, first, 1)))
    length = build.select(bottom, near, far)
    base = build.add(build.select(bottom, e, at(d, first)), build.mul(length, 0.75))
    other = build.apply1("or", top, bottom)
    a, e = (build.select(other, base, x) for x in (a, e))
    b = build.select(other, build.mul(length, -0.4375), b)
    c = build.select(other, length, c)
    total = build.add(build.add(_size(a), _size(b)), build.add(_size(c), _size(e)))
    total = build.select(build.compare(total, "eq", 0.0), 1.0, total)
    a, b, c, e = (build.div(x, total) for x in (a, b, c, e))
    mid = build.mul(build.add(a, e), 0.5)
    det = build.sub(build.mul(build.sub(a, mid), build.sub(e, mid)), build.mul(b, c))
    root = build.sqrt(_size(det))
    pair = build.compare(det, "ge", 0.0)
    one, two = build.add(mid, root), build.sub(mid, root)
    nearer = build.compare(_size(build.sub(one, e)), "le", _size(build.sub(two, e)))
    shift = build.mul(build.select(pair, mid, build.select(nearer, one, two)), total)
    beside = build.select(pair, build.mul(root, total), 0.0)
    gap, c = build.sub(at(d, first), shift), at(below, first)
    total = build.add(build.add(_size(gap), _size(beside)), _size(c))
    total = build.select(build.compare(total, "eq", 0.0), 1.0, total)
    c = build.div(c, total)
    square = build.add(
        build.mul(gap, build.div(gap, total)), build.mul(beside, build.div(beside, total))
    )
    numbers = [
        build.add(build.mul(c, at(above, first)), square),
        build.mul(c, build.add(gap, build.sub(at(d, first, 1), shift))),
        build.mul(c, at(below, first, 1)),
    ]
    return (_column(numbers),)


def _column(numbers: list[Node]) -> Node:
    """Numbers (…) as (…, count)."""
    one = [build.reshape(x, (*x.shape, 1)) for x in numbers]
    return build.concat(one, one[0].type.rank - 1)


def single_shift(
    d: Numbers, below: Numbers, above: Numbers, first: Node, last: Node, since: Node
) -> Numbers:
    """The first two numbers of the first column of H - s, for the eigenvalue s of the last two rows
    of a complex block that is nearer to the last number (Wilkinson's shift).
    """

    def at(x: Numbers, place: Node, plus: int = 0) -> Parts:
        real_part, imaginary = _value(x, build.add(place, plus))
        return real_part, imaginary

    top, bottom = _made_up(since)
    t, low = at(d, last), at(below, last, -1)
    u = mul(sqrt(at(above, last, -1)), sqrt(low))
    a = at(d, last, -1)
    x = tuple(build.mul(build.sub(p, q), 0.5) for p, q in zip(a, t, strict=True))
    total = build.maximum(magnitude(u), magnitude(x))
    total = build.div(1.0, build.select(build.compare(total, "eq", 0.0), 1.0, total))
    p, q = scaled(x, total), scaled(u, total)
    squares = (mul((v[0], v[1]), (v[0], v[1])) for v in (p, q))
    one, two = squares
    root = sqrt((build.add(one[0], two[0]), build.add(one[1], two[1])))
    turned = build.add(build.mul(p[0], root[0]), build.mul(p[1], root[1]))
    sign = build.select(build.compare(turned, "lt", 0.0), build.like(-1.0, turned), 1.0)
    y = build.div(build.mul(root[0], sign), total), build.div(build.mul(root[1], sign), total)
    divisor = build.add(x[0], y[0]), build.add(x[1], y[1])
    none = build.compare(magnitude(divisor), "eq", 0.0)
    safe = select(none, real(1.0, divisor), divisor)
    less = mul(u, div(u, (safe[0], safe[1])))
    t = build.sub(t[0], less[0]), build.sub(t[1], less[1])
    head, beside = at(d, first), at(below, first)
    near, far = (build.mul(magnitude(v), 0.75) for v in (low, beside))
    end = at(d, last)
    t = where(top, (build.add(head[0], far), head[1]), t)
    t = where(bottom, (build.add(end[0], near), end[1]), t)
    gap = build.sub(head[0], t[0]), build.sub(head[1], t[1])
    return tuple(_column([g, b]) for g, b in zip(gap, beside, strict=True))
