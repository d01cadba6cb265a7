"""Sums of two tensors of bytes by one product each: (a x + b y + c) >> bits, in 32 bits.

The reference kernels multiply three times in 64 bits and round three times. There are only 65,536
pairs of bytes, so integers a, b and c are searched with which all of them give the kernels' result;
where there are none, the kernels' own steps are computed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

BITS = 31  # of the integers computed with, apart from their sign
NEAR = 8  # how far from the nearest integers a and b are searched
TRIED = 3  # counts of bits after the point


class LinearForm(NamedTuple):
    """(a x + b y + c) >> bits, where no partial sum of bytes x and y needs more than 32 bits."""

    a: int
    b: int
    c: int
    bits: int

    def of(self, x: Node, y: Node) -> Node:
        """The form of bytes, i32."""
        total = build.mul(build.cast(x, DType.I32), self.a)
        total = build.add(total, build.mul(build.cast(y, DType.I32), self.b))
        return build.apply1("shr", build.add(total, self.c), self.bits)


def byte_values(kind: DType) -> Array:
    """All integers of a type of 8 bits, i64[256]."""
    least = int(np.iinfo(kind.numpy).min)
    return np.arange(least, least + 256, dtype=np.int64)


def linear_form(
    table: Array, kind: DType, slopes: tuple[float, float], ends: tuple[int, int]
) -> LinearForm | None:
    """A form that gives `table` (i64[256, 256], by x and y in their order) once it is clamped to
    `ends`, as that is. Its slopes are near `slopes`. None if none was found.
    """
    largest = float(np.abs(byte_values(kind)).max()) * sum(map(abs, slopes))
    most = BITS - 1 - max(0, int(np.ceil(np.log2(largest))))
    for bits in range(most, max(most - TRIED, 0), -1):
        form = _nearest(table, kind, slopes, ends, bits)
        if form is not None:
            return form
    return None


def _nearest(
    table: Array, kind: DType, slopes: tuple[float, float], ends: tuple[int, int], bits: int
) -> LinearForm | None:
    """A form with so many bits after the point, that which misses the table's steps by most."""
    values = byte_values(kind)
    x, y = values[:, None], values[None]
    a, b = (round(slope * 2.0**bits) for slope in slopes)
    value = a * x + b * y
    steps = np.arange(-NEAR, NEAR + 1)
    more = [each.reshape(-1, 1) for each in np.meshgrid(steps, steps, indexing="ij")]
    # c brings each pair to its number at least, and not to the next; beyond an end that is clamped
    firsts = _most((table << bits) - value, table > ends[0], values, more)
    lasts = -_most(value - (table + 1 << bits) + 1, table < ends[1], -values, more)
    best = int(np.argmax(lasts - firsts))
    a, b = a + int(more[0][best, 0]), b + int(more[1][best, 0])
    form = LinearForm(a, b, int(firsts[best] + lasts[best]) // 2, bits)
    return form if firsts[best] <= lasts[best] and _gives(form, table, x, y, ends) else None


def _most(limits: Array, among: Array, values: Array, more: list[Array]) -> Array:
    """The largest of limits i64[256, 256] `among` pairs of values, for each try i64[n, 1] of what
    the slopes have `more`, by which the sums of pairs move away from their limits.
    """
    nothing = -(1 << BITS)
    here = np.where(among, limits, nothing).reshape(-1)
    if here.max() == nothing:
        return np.full(len(more[0]), nothing)
    near = np.flatnonzero(here >= here.max() - 2 * 256 * NEAR)  # others are not reached
    rows, columns = np.divmod(near, 256)
    moved = more[0] * values[rows] + more[1] * values[columns]
    largest: Array = (here[near] - moved).max(axis=1)
    return largest


def _gives(form: LinearForm, table: Array, x: Array, y: Array, ends: tuple[int, int]) -> bool:
    """Whether a form gives a table in 32 bits."""
    first, other = form.a * x, form.b * y
    corners = first[[0, -1]] + other[:, [0, -1]]  # sums are largest there
    for part in (first, other, corners, corners + form.c):
        if np.abs(part).max() >= 1 << BITS:
            return False
    given = np.clip(first + (other + form.c) >> form.bits, *ends)
    return np.array_equal(given, table)
