"""The discrete Fourier transform in stages, each a product with a small matrix.

A transform of n = r m elements is r-point transforms of the elements m apart, a rotation of each
element of theirs, and m-point transforms of neighbours (Cooley and Tukey); where n has a large
prime factor, transforms of that many points are a convolution, computed by transforms of a longer
size (Bluestein). The work is n times the sum of the radices instead of n², and an element's error
grows with their number: with log n.

Complex numbers are tensors (parts, n, batch), the parts being real and imaginary, or only real.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build

RADIX = 16  # prime factors are combined up to this radix; a larger stage costs more than two
DIRECT = 32  # elements up to which a single stage is used
PRIME = 128  # a prime radix up to which a product costs less than a convolution
TABLE = 1 << 14  # rotations stored in one table; more are computed as products of two


@dataclass(frozen=True)
class DftForm:
    """The direction of a transform, and the scale of its results."""

    inverse: bool
    share: float = 1.0

    def angles(self, turns: Array, length: int) -> Array:
        """Angles of `turns` (integers) steps around a circle of `length` steps, reduced before
        rounding.
        """
        return np.mod(turns, length) * ((2 if self.inverse else -2) * np.pi / length)


def radices(size: int) -> list[int]:
    """The radices of the stages for `size` elements, the largest first: products of small prime
    factors, and large primes.
    """
    if size <= DIRECT:
        return [size]
    primes = _primes(size)
    small, large = [p for p in primes if p <= RADIX], [p for p in primes if p > RADIX]
    for stages in count(1):
        groups = [1] * stages
        for prime in reversed(small):
            groups[groups.index(min(groups))] *= prime
        if max(groups) <= RADIX:
            return sorted([g for g in groups if g > 1] + large, reverse=True)
    raise AssertionError("unreachable")


def _primes(size: int) -> list[int]:
    """The prime factors, ascending."""
    primes, divisor = [], 2
    while divisor * divisor <= size:
        while size % divisor == 0:
            primes.append(divisor)
            size //= divisor
        divisor += 1
    return primes + [size] * (size > 1)


def transformed(x: Node, way: DftForm, parts: int = 2) -> Node:
    """The transforms along axis 1 of (1 or 2, n, batch); `parts` is 1 where only the real part is
    needed.
    """
    size = x.shape[1]
    assert isinstance(size, int)
    return _staged(x, radices(size), way, parts)


def _staged(x: Node, stages: list[int], way: DftForm, parts: int) -> Node:
    given, size, batch = x.shape
    assert isinstance(size, int)
    radix, rest = stages[0], size // stages[0]
    if rest == 1:
        return _points(x, way, parts)
    columns = build.reshape(x, (given, radix, rest * batch))
    rows = build.reshape(_points(columns, DftForm(way.inverse), 2), (2, radix, rest, batch))
    turned = _rotated(rows, stages[1:], way)  # (2, rest, radix, batch)
    staged = _staged(build.reshape(turned, (2, rest, radix * batch)), stages[1:], way, parts)
    return build.reshape(staged, (parts, size, batch))


def _points(x: Node, way: DftForm, parts: int) -> Node:
    """One stage: a product with the transform's matrix, or a convolution."""
    given, size, _ = x.shape
    assert isinstance(given, int) and isinstance(size, int)
    if size > PRIME:
        return _convolved(x, way, parts)
    angle = way.angles(np.outer(np.arange(size), np.arange(size)), size)
    cosine, sine = np.cos(angle) * way.share, np.sin(angle) * way.share
    # (part of the result, element of it, part, element)
    matrix = np.stack([np.stack([cosine, -sine], 1), np.stack([sine, cosine], 1)])
    kernel = build.constant(matrix[:parts, :, :given], x.type.dtype)
    return build.dot(kernel, x, ((2, 3), (0, 1)))


def _rotated(rows: Node, later: list[int], way: DftForm) -> Node:
    """Elements (k, i) of (2, radix, rest, batch) rotated by k i steps, as (2, rest, radix, batch).

    A rotation by i = a s + b steps is one by a s and one by b: two small tables instead of one as
    large as the tensor.
    """
    _, radix, rest, batch = rows.shape
    assert isinstance(radix, int) and isinstance(rest, int)
    inner = 1
    if radix * rest > TABLE:
        for stage in reversed(later):
            if inner * inner < rest:
                inner *= stage
    outer = rest // inner
    real, imaginary = (
        build.reshape(p, (radix, outer, inner, batch)) for p in parts_of(rows, axis=0)
    )
    k = np.arange(radix)[:, None]
    tables = {(radix, 1, inner, 1): k * np.arange(inner)}
    if outer > 1:
        tables[radix, outer, 1, 1] = k * (np.arange(outer) * inner)
    for shape, turns in tables.items():
        angle = way.angles(turns, radix * rest).reshape(shape)
        real, imaginary = multiplied(real, imaginary, np.cos(angle), np.sin(angle))
    order = (1, 2, 0, 3)
    turned = stacked(build.transpose(real, order), build.transpose(imaginary, order), axis=0)
    return build.reshape(turned, (2, rest, radix, batch))


def _convolved(x: Node, way: DftForm, parts: int) -> Node:
    """A transform as a convolution (Bluestein), by i k = (i² + k² - (k - i)²) / 2: elements are
    rotated by i²/2 steps, convolved with rotations by -j²/2, and rotated by k²/2.
    """
    given, size, batch = x.shape
    assert isinstance(size, int)
    long = _smooth(2 * size - 1)
    half = way.angles(np.arange(size) ** 2, 2 * size)[:, None]
    if given == 1:
        real = build.reshape(x, (size, batch))
        imaginary = build.mul(real, build.constant(np.sin(half), x.type.dtype))
        real = build.mul(real, build.constant(np.cos(half), x.type.dtype))
    else:
        real, imaginary = multiplied(*parts_of(x, axis=0), np.cos(half), np.sin(half))
    turned = stacked(real, imaginary, axis=0)
    padded = build.pad(turned, 0.0, (0, 0, 0), (0, long - size, 0))
    around = np.zeros(long, np.complex128)
    around[:size] = np.exp(-1j * half[:, 0])
    around[long - size + 1 :] = around[size - 1 : 0 : -1]
    spectrum = (np.fft.fft(around) * (way.share / long))[:, None]
    turned_pair = multiplied(
        *parts_of(transformed(padded, DftForm(False)), axis=0), spectrum.real, spectrum.imag
    )
    whole = transformed(stacked(*turned_pair, axis=0), DftForm(True))
    real, imaginary = (build.cut(p, 0, 0, size) for p in parts_of(whole, axis=0))
    products = multiplied(real, imaginary, np.cos(half), np.sin(half))
    return (
        stacked(*products, axis=0) if parts == 2 else build.reshape(products[0], (1, size, batch))
    )


def _smooth(least: int) -> int:
    """The smallest number of at least `least` without prime factors above 5."""
    best = 1 << (least - 1).bit_length()
    for fives in range(int(math.log(best, 5)) + 1):
        for threes in range(int(math.log(best, 3)) + 1):
            odd = 5**fives * 3**threes
            twos = max(0, (-(-least // odd) - 1).bit_length())
            best = min(best, odd << twos)
    return best


# ---- complex numbers ---------------------------------------------------------------------------


def multiplied(real: Node, imaginary: Node, cosine: Array, sine: Array) -> tuple[Node, Node]:
    """Complex numbers times constants that broadcast to them."""
    c, s = (build.constant(t, real.type.dtype) for t in (cosine, sine))
    return (
        build.sub(build.mul(real, c), build.mul(imaginary, s)),
        build.add(build.mul(real, s), build.mul(imaginary, c)),
    )


def parts_of(x: Node, axis: int) -> tuple[Node, Node]:
    """The two slices along an axis of size 2, which is removed."""
    shape: tuple[Dim, ...] = (*x.shape[:axis], *x.shape[axis + 1 :])
    real, imaginary = (build.reshape(build.cut(x, axis, n, n + 1), shape) for n in (0, 1))
    return real, imaginary


def stacked(real: Node, imaginary: Node, axis: int) -> Node:
    """Two tensors along a new axis."""
    return build.apply1("stack", real, imaginary, axis=axis)
