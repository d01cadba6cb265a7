"""How an operation may be divided among ranks: which axes of operands and results go together.

A factor is a loop of the operation: `dot` has one over rows, one over columns and one over the
elements that are summed. Axes of operands and results that run over one loop have the same factor:
divided into parts, it divides all of them alike, and a rank computes its part from operands of its
part alone. A factor that only operands have is summed over (or combined otherwise), so its parts
give partial results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import gcd

from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.spmd.mesh import part_size
from xlac.spmd.rules.reach import HaloAxis, RegroupedAxes

Factor = int
Dims = tuple[Factor | None, ...]
"""The factor of each axis; None: the axis is needed whole."""

Parts = Callable[[Factor | None], int]
"""Into how many parts a factor is divided; 1 for None."""

LocalOp = Callable[[Parts], Op]


@dataclass(frozen=True, slots=True)
class ShardingRule:
    """The factors of one node.

    `sizes`: the elements of a factor; one in `even` is divided into numbers of parts that divide
    its size, others into any, the last parts padded. `combine`: how partial results are combined,
    for factors that results lack. `rows`: axes of the first operand that is read or changed at
    indices, which `rows.py` makes those of a rank's part. `halos`: axes that are read beyond a
    part, which `halo.py` brings from neighbours. `regroups`: axes that a reshape merges or splits,
    in parts that are not equal, of which neighbours exchange some. `local` makes the operation of
    one rank.
    """

    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]
    sizes: Mapping[Factor, int]
    local: LocalOp
    combine: Mapping[Factor, str] = field(default_factory=dict)
    even: AbstractSet[Factor] = frozenset()
    rows: Mapping[int, Factor] = field(default_factory=dict)
    halos: Mapping[Factor, HaloAxis] = field(default_factory=dict)
    regroups: Mapping[Factor, RegroupedAxes] = field(default_factory=dict)

    def fits(self, factor: Factor, parts: int) -> bool:
        """Whether a factor can be divided into so many parts."""
        if factor in self.halos and not self.halos[factor].fits(parts):
            return False
        if factor in self.regroups and self.regroups[factor].fits(parts):
            return True
        return factor not in self.even or self.sizes[factor] % parts == 0


class FactorNumbers:
    """Numbers the factors of a node."""

    def __init__(self) -> None:
        self.sizes: dict[Factor, int] = {}
        self.even: set[Factor] = set()

    def new(self, size: object) -> Factor | None:
        """A factor of a size; None where the axis has a single element, or an unknown number."""
        if not isinstance(size, int) or size <= 1:
            return None
        number = len(self.sizes)
        self.sizes[number] = size
        return number

    def each(self, shape: Sequence[object]) -> Dims:
        """A factor for each axis."""
        return tuple(map(self.new, shape))

    def within(self, factor: Factor | None, size: object) -> Factor | None:
        """The factor, of which numbers of parts divide its size and `size`."""
        if factor is not None and isinstance(size, int):
            self.sizes[factor] = gcd(self.sizes[factor], size)
            self.even.add(factor)
        return factor


def unchanged(node: Node) -> LocalOp:
    """The same operation on every rank."""
    op = node.op
    return lambda parts: op


def whole(node: Node) -> ShardingRule:
    """The rule of an operation that every rank computes whole."""
    operands = tuple((None,) * t.rank for i in node.inputs for t in i.results[:1])
    results = tuple((None,) * t.rank for t in node.results)
    return ShardingRule(operands, results, {}, unchanged(node))


def cut(shape: Sequence[object], dims: Dims, parts: Parts) -> tuple[int, ...]:
    """The shape of one part of a value."""
    sizes = []
    for size, factor in zip(shape, dims, strict=True):
        assert isinstance(size, int)
        sizes.append(part_size(size, parts(factor)))
    return tuple(sizes)
