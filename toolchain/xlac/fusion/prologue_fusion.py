"""Operands of products that a GPU computes while reading them: weights dequantized from integers,
scales and zero points; normalized rows.

Such an operand is not written to memory. It is recomputed for every tile along the other axis, so
this pays for products of few rows or columns, and where its sources are much smaller than it.
Reductions over rows (mean, deviation) come from a kernel of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from xlac.fusion import cost
from xlac.fusion.cluster import is_pointwise, is_view
from xlac.fusion.group import is_immediate
from xlac.ir.dims import size_hint, volume
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor import view
from xlac_sdk.target import Target

TILE = 128  # rows or columns of a tile, which computes an operand once
FEW, ACROSS = 8, 32  # for products of few rows: the most rows, and the columns of a block
MOST = 24  # nodes of one operand
REDUCED = 3  # pointwise nodes between an operand and a reduction that reads it too

Users = Mapping[Node, Sequence[Node]]
Read = tuple[Node, int]  # a product, and the number of its operand
Chain = Mapping[Node, bool]  # nodes, each with whether reductions read it too


@dataclass(frozen=True, slots=True)
class Prologues:
    """Which operands products compute. `alone` are nodes that only products read, and so are
    computed nowhere else.
    """

    of: Mapping[Node, frozenset[Node]] = field(default_factory=dict)  # by product
    alone: frozenset[Node] = frozenset()

    def computes(self, product: Node, node: Node) -> bool:
        """Whether a product computes a node."""
        return node in self.of.get(product, ())


def prologues(
    number: Mapping[Node, int], users: Users, results: Iterable[Node], target: Target
) -> Prologues:
    """The prologues that pay, in a graph whose nodes are numbered in order. None on CPUs."""
    if target.device != "gpu":
        return Prologues()
    reads: dict[Node, list[Read]] = {}
    for node in number:
        if isinstance(node.op, Dot):
            for side, operand in enumerate(node.inputs):
                reads.setdefault(_beneath(operand), []).append((node, side))
    search = _PrologueSearch(number, users, frozenset(results), target)
    chains: dict[Node, set[Node]] = {}
    alone: set[Node] = set()
    for top, by in reads.items():
        chain = search.chain(top, {product for product, _ in by})
        if chain and search.pays(top, chain, by):
            alone |= {node for node, shared in chain.items() if not shared}
            for product, _ in by:
                chains.setdefault(product, set()).update(chain)
    return Prologues(
        {product: frozenset(nodes) for product, nodes in chains.items()}, frozenset(alone)
    )


@dataclass(frozen=True, slots=True)
class _PrologueSearch:
    """Searches a graph for operands that products should compute."""

    number: Mapping[Node, int]
    users: Users
    kept: frozenset[Node]
    target: Target

    def chain(self, top: Node, products: set[Node]) -> Chain:
        """The pointwise nodes that compute an operand. Empty where the operand itself is not
        pointwise, or has other readers.

        Nodes further up that have other readers belong to the chain only where those readers are
        reductions; otherwise they are in memory anyway.
        """
        chain: dict[Node, bool] = {}
        waiting = [(-self.number.get(top, 0), 0, top)]
        while waiting and len(chain) < MOST:
            _, _, node = heappop(waiting)
            if (
                node in chain
                or node in self.kept
                or not is_pointwise(node)
                or not self._fits(node, top)
            ):
                continue
            outside = [
                user for user in self._readers(node) if user not in chain and user not in products
            ]
            if outside and (node is top or not all(self._reduced(user) for user in outside)):
                continue
            chain[node] = bool(outside)
            for operand in map(_source, node.inputs):
                if operand in self.number:
                    heappush(
                        waiting, (-self.number[operand], len(waiting) + len(chain) * MOST, operand)
                    )
        return chain

    def pays(self, top: Node, chain: Chain, by: Sequence[Read]) -> bool:
        """Whether computing an operand for every tile moves fewer bytes than writing it once and
        reading it.
        """
        given = dict.fromkeys(_source(i) for node in chain for i in node.inputs)
        sources = [node for node in given if node not in chain and not is_immediate(node)]
        if not all(self._in_memory(node, top, chain) for node in sources) or any(
            self._library(product) for product, _ in by
        ):
            return False
        read, size = sum(cost.nbytes(node) for node in sources), cost.elements(top)
        times = sum(_times(product, side) for product, side in by)
        again = len(by) * read + times * cost.staged(chain) * size * cost.operation_bytes(
            self.target
        )
        store = (1 + len(by)) * cost.nbytes(top)
        # otherwise a reduction computes it already
        if not any(chain.values()) and not any(isinstance(node.op, Reduce) for node in sources):
            store += read + cost.launch_bytes(self.target)
        return again < store

    def _fits(self, node: Node, top: Node) -> bool:
        """Whether each node is of the operand's size, or a small one (scales and the like) that is
        read from memory as it is.
        """
        if cost.elements(node) == cost.elements(top):
            return True
        return cost.weight(node.op) <= 1 and all(i not in self.number for i in node.inputs)

    def _readers(self, node: Node) -> list[Node]:
        """The readers of a node, looking through views."""
        readers: list[Node] = []
        for user in self.users.get(node, ()):
            readers += self._readers(user) if is_view(user) else [user]
        return readers

    def _reduced(self, node: Node, depth: int = REDUCED) -> bool:
        """Whether a node is a reduction, or pointwise with only such readers."""
        if isinstance(node.op, Reduce):
            return True
        return (
            depth > 0
            and is_pointwise(node)
            and all(self._reduced(user, depth - 1) for user in self.users.get(node, ()))
        )

    def _in_memory(self, node: Node, top: Node, chain: Chain) -> bool:
        """Whether the inputs of the chain are in memory anyway, or small."""
        if node not in self.number or node in self.kept or cost.elements(node) < cost.elements(top):
            return True
        others = (user for user in self._readers(node) if user not in chain)
        return is_pointwise(node) and not all(self._reduced(user) for user in others)

    def _library(self, product: Node) -> bool:
        """Whether the target's library computes such a product, from operands in memory."""
        dtype, flops, least = (
            product.inputs[0].type.dtype,
            cost.flops(product),
            min(_sizes(product)),
        )
        return any(
            one.operands is dtype and flops >= one.flops and least >= one.least
            for one in self.target.products
        )


def _beneath(node: Node) -> Node:
    """The value beneath views that keep the number of elements."""
    while isinstance(node.op, view.Transpose | view.Reshape):
        (node,) = node.inputs
    return node


def _source(node: Node) -> Node:
    """The value beneath any views."""
    while is_view(node):
        (node,) = node.inputs
    return node


def _times(product: Node, side: int) -> int:
    """How often a product reads each element of an operand."""
    own, other = _sizes(product)[:: 1 - 2 * side]
    if min(own, other) <= FEW:
        return 1 if own >= other else -(-other // ACROSS)
    return -(-other // TILE)


def _sizes(product: Node) -> tuple[int, int]:
    """Rows and columns of a product."""
    op, (left, right) = product.op, product.inputs
    assert isinstance(op, Dot)
    rows, columns = op.free(left.type.rank, right.type.rank)
    return size_hint(volume(tuple(left.shape[a] for a in rows))), size_hint(
        volume(tuple(right.shape[a] for a in columns))
    )
