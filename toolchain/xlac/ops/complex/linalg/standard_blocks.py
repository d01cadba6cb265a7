"""The blocks of two rows on the diagonal of a real Schur form, as LAPACK's lanv2 leaves them."""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Node, pick
from xlac.ops import build
from xlac.ops.linalg.matrices import over
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac_sdk.dtypes import DType


def standardized(t: Node, z: Node) -> tuple[tuple[Node], tuple[Node]]:
    """T and Z* with each block of two rows rotated: it is triangular where its eigenvalues are
    real, else it has equal numbers on its diagonal.
    """
    size, rank = t.shape[-1], t.type.rank
    assert isinstance(size, int)
    if size < 2:
        return (t,), (z,)
    batch, zero = t.shape[:-2], build.constant(0, DType.I64)

    def step(t: Node, z: Node, number: Node) -> list[Node]:
        front = [zero] * (rank - 2)
        block = Node.of(DynSlice((*batch, 2, 2)), t, *front, number, number)
        cosine, sine, made = _rotation(block)
        rows = Node.of(DynSlice((*batch, 2, size)), t, *front, number, zero)
        t = Node.of(DynUpdate(), t, _turned(rows, cosine, sine), *front, number, zero)
        columns = Node.of(DynSlice((*batch, size, 2)), t, *front, zero, number)
        swapped = build.transpose(columns, [*range(rank - 2), rank - 1, rank - 2])
        swapped = _turned(swapped, cosine, sine)
        columns = build.transpose(swapped, [*range(rank - 2), rank - 1, rank - 2])
        t = Node.of(DynUpdate(), t, columns, *front, zero, number)
        t = Node.of(DynUpdate(), t, made, *front, number, number)
        rows = Node.of(DynSlice((*batch, 2, size)), z, *front, number, zero)
        z = Node.of(DynUpdate(), z, _turned(rows, cosine, sine), *front, number, zero)
        return [t, z]

    found = over(size - 1, step, (t, z), ())
    return (pick(found, 0),), (pick(found, 1),)


def _turned(rows: Node, cosine: Node, sine: Node) -> Node:
    """Two rows (…, 2, n), rotated."""
    rank = rows.type.rank
    first, second = (build.cut(rows, rank - 2, k, k + 1) for k in (0, 1))
    c, s = (build.back(x, first.shape, (rank - 2, rank - 1)) for x in (cosine, sine))
    up = build.add(build.mul(c, first), build.mul(s, second))
    down = build.sub(build.mul(c, second), build.mul(s, first))
    return build.concat([up, down], rank - 2)


def _signed(size: Node, like: Node) -> Node:
    """A number of at least 0 with the sign of another."""
    return build.select(build.compare(like, "lt", 0.0), build.apply1("neg", size), size)


def _length(x: Node, y: Node) -> Node:
    """The root of the sum of two squares, of which one is not 0."""
    x, y = build.apply1("abs", x), build.apply1("abs", y)
    large, small = build.maximum(x, y), build.minimum(x, y)
    large = build.select(build.compare(large, "eq", 0.0), 1.0, large)
    ratio = build.div(small, large)
    return build.mul(large, build.sqrt(build.add(build.mul(ratio, ratio), 1.0)))


def _rotation(block: Node) -> tuple[Node, Node, Node]:
    """Cosine and sine (…) of the rotation of blocks (…, 2, 2), and the blocks that it makes: (a b;
    0 d), or (a b; c a) with b c < 0.
    """
    rank = block.type.rank
    flat = build.reshape(block, (*block.shape[:-2], 4))
    a, b, c, d = (
        build.reshape(build.cut(flat, rank - 2, k, k + 1), block.shape[:-2]) for k in range(4)
    )
    done = build.compare(c, "eq", 0.0)
    gap = build.sub(a, d)
    half = build.mul(gap, 0.5)
    sizes = [build.apply1("abs", x) for x in (b, c)]
    most = build.maximum(*sizes)
    least = build.mul(
        build.minimum(*sizes),
        build.mul(_signed(build.like(1.0, b), b), _signed(build.like(1.0, c), c)),
    )
    scale = build.maximum(build.apply1("abs", half), most)
    scale = build.select(build.compare(scale, "eq", 0.0), 1.0, scale)
    inner = build.add(
        build.mul(build.div(half, scale), half), build.mul(build.div(most, scale), least)
    )
    eps = float(np.finfo(block.type.dtype.numpy).eps)
    apart = build.compare(inner, "ge", 4 * eps)
    real = _triangular(a, b, c, d, half, most, least, scale, inner, apart)
    pair = _alike(a, b, c, d, gap, half)
    # a zero above the diagonal: the two rows change places
    exchange = (
        build.like(0.0, a),
        build.like(1.0, a),
        d,
        build.apply1("neg", c),
        build.like(0.0, a),
        a,
    )
    same = (build.like(1.0, a), build.like(0.0, a), a, b, c, d)
    opposite = build.compare(build.compare(b, "lt", 0.0), "ne", build.compare(c, "lt", 0.0))
    ready = build.apply1("and", build.compare(gap, "eq", 0.0), opposite)
    chosen = []
    for number in range(6):
        value = build.select(apart, real[number], pair[number])
        value = build.select(ready, same[number], value)
        value = build.select(build.compare(b, "eq", 0.0), exchange[number], value)
        chosen.append(build.select(done, same[number], value))
    made = build.concat([build.reshape(x, (*x.shape, 1)) for x in chosen[2:]], rank - 2)
    return chosen[0], chosen[1], build.reshape(made, block.shape)


def _triangular(
    a: Node,
    b: Node,
    c: Node,
    d: Node,
    half: Node,
    most: Node,
    least: Node,
    scale: Node,
    inner: Node,
    apart: Node,
) -> tuple[Node, ...]:
    """Cosine, sine and the block of two real eigenvalues that are well apart."""
    root = build.mul(build.sqrt(scale), build.sqrt(build.select(apart, inner, 1.0)))
    z = build.add(half, _signed(root, half))
    length = _length(c, z)
    return (
        build.div(z, length),
        build.div(c, length),
        build.add(d, z),
        build.sub(b, c),
        build.like(0.0, a),
        build.sub(d, build.mul(build.div(most, z), least)),
    )


def _alike(a: Node, b: Node, c: Node, d: Node, gap: Node, half: Node) -> tuple[Node, ...]:
    """Cosine, sine and the block of conjugate eigenvalues, or of two that are nearly equal: equal
    numbers on the diagonal, then a further rotation where those beside it have one sign.
    """
    total = build.add(b, c)
    length = _length(total, gap)
    cosine = build.sqrt(
        build.mul(build.add(build.div(build.apply1("abs", total), length), 1.0), 0.5)
    )
    sine = build.apply1("neg", _signed(build.div(half, build.mul(length, cosine)), total))
    aa, bb = (
        build.add(build.mul(a, cosine), build.mul(b, sine)),
        build.sub(build.mul(b, cosine), build.mul(a, sine)),
    )
    cc, dd = (
        build.add(build.mul(c, cosine), build.mul(d, sine)),
        build.sub(build.mul(d, cosine), build.mul(c, sine)),
    )
    a, b = (
        build.add(build.mul(aa, cosine), build.mul(cc, sine)),
        build.add(build.mul(bb, cosine), build.mul(dd, sine)),
    )
    c, d = (
        build.sub(build.mul(cc, cosine), build.mul(aa, sine)),
        build.sub(build.mul(dd, cosine), build.mul(bb, sine)),
    )
    mean = build.mul(build.add(a, d), 0.5)
    zero = build.like(0.0, a)
    one = build.compare(build.compare(b, "lt", 0.0), "eq", build.compare(c, "lt", 0.0))
    no_b, no_c = build.compare(b, "eq", 0.0), build.compare(c, "eq", 0.0)
    first, second = (build.sqrt(build.apply1("abs", x)) for x in (b, c))
    product = _signed(build.mul(first, second), c)
    whole = build.apply1("abs", build.add(b, c))
    inverse = build.apply1("rsqrt", build.select(build.compare(whole, "eq", 0.0), 1.0, whole))
    cosine_1, sine_1 = build.mul(first, inverse), build.mul(second, inverse)
    both = (
        build.sub(build.mul(cosine, cosine_1), build.mul(sine, sine_1)),
        build.add(build.mul(cosine, sine_1), build.mul(sine, cosine_1)),
        build.add(mean, product),
        build.sub(b, c),
        zero,
        build.sub(mean, product),
    )
    plain = cosine, sine, mean, b, c, mean
    exchanged = build.apply1("neg", sine), cosine, mean, build.apply1("neg", c), zero, mean
    chosen = []
    for number in range(6):
        value = build.select(one, both[number], plain[number])
        value = build.select(no_b, exchanged[number], value)
        chosen.append(build.select(no_c, plain[number], value))
    return tuple(chosen)
