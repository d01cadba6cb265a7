"""Plans a group around reductions: its space, the passes and the values that are kept between
passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Node
from xlac.ir.op import Elementwise
from xlac.ops.control.control import Pick
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.kernel_ir.kernel import Expr

# operations for each element above which a value is kept for later passes instead of recomputed
DEAR = 6


@dataclass(frozen=True, slots=True)
class ReductionSpace:
    """The shape that the reductions of a group read, and the axes that they reduce."""

    shape: Shape
    reduced: frozenset[int]

    @staticmethod
    def of(group: Group) -> ReductionSpace:
        """The space of a group: the shape that its reductions read."""
        first = next(node for node in group.nodes if isinstance(node.op, Reduce))
        assert isinstance(first.op, Reduce)
        return ReductionSpace(first.inputs[0].shape, frozenset(first.op.axes))

    @property
    def kept(self) -> Shape:
        """Sizes of the axes that are not reduced."""
        return tuple(n for a, n in enumerate(self.shape) if a not in self.reduced)

    @property
    def count(self) -> Dim:
        """The number of elements that one reduction combines."""
        return volume(tuple(self.shape[a] for a in self.reduced))

    def is_full(self, node: Node) -> bool:
        """True for a node with a value for every element of the space, False for one with a value
        for each result.
        """
        return _dense(node.shape) == _dense(self.shape)

    def index(self, node: Node, full: tuple[Expr, ...], zero: Expr) -> tuple[Expr, ...]:
        """The index of a node for an index of the space; axes of one element may be added or
        removed.
        """
        source = (
            range(len(self.shape))
            if self.is_full(node)
            else (a for a in range(len(self.shape)) if a not in self.reduced)
        )
        moving = iter([full[a] for a in source if self.shape[a] != 1])
        return tuple(next(moving) if n != 1 else zero for n in node.shape)


def _dense(shape: Iterable[Dim]) -> Shape:
    return tuple(n for n in shape if n != 1)


@dataclass(slots=True)
class ReductionPass:
    """One traversal of the reduced axes."""

    reductions: list[Node] = field(default_factory=list)
    stores: list[Node] = field(default_factory=list)  # outputs with a value for every element
    # values computed in this pass and kept for later ones
    keep: list[Node] = field(default_factory=list)
    # nodes computed from its results, once for each result
    after: list[Node] = field(default_factory=list)
    size: int = 0  # the number of nodes computed for each element

    @property
    def roots(self) -> list[Node]:
        """The nodes that the pass computes for every element."""
        return [x for r in self.reductions for x in reduced_inputs(r)] + self.stores


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """The passes in order, and the outputs with one value for each position of the kept axes."""

    passes: tuple[ReductionPass, ...]
    results: tuple[Node, ...]


def reduced_inputs(node: Node) -> tuple[Node, ...]:
    """The operands of a reduction that are reduced; the others are initial values."""
    assert isinstance(node.op, Reduce)
    return node.inputs if node.op.body is None else node.inputs[: len(node.inputs) // 2]


def plan(group: Group, space: ReductionSpace) -> ReductionPlan:
    """Assigns every node to the first pass that can compute it."""
    level: dict[Node, int] = {}
    for node in group.nodes:
        before = max((level.get(i, 0) for i in node.inputs), default=0)
        level[node] = before + isinstance(node.op, Reduce)
    passes = [ReductionPass() for _ in range(1 + max(level.values(), default=0))]
    for node in group.nodes:
        if isinstance(node.op, Reduce):
            passes[level[node] - 1].reductions.append(node)
        elif (
            level[node]
            and isinstance(node.op, Elementwise)
            and _dense(node.shape) == _dense(space.kept)
        ):
            passes[level[node] - 1].after.append(node)
    results = []
    for node in group.outputs:
        reduction = isinstance(node.op, Reduce | Pick)
        if space.is_full(node) and not reduction:
            passes[level[node]].stores.append(node)
        else:
            results.append(node)
    _keep(group, space, passes, level)
    return ReductionPlan(tuple(p for p in passes if p.reductions or p.stores), tuple(results))


def _keep(
    group: Group, space: ReductionSpace, passes: list[ReductionPass], level: dict[Node, int]
) -> None:
    """Marks expensive values that a later pass needs again."""
    first: dict[Node, int] = {}  # the pass that first computes each value of the full space
    for number, one in enumerate(passes):
        stack, seen = list(one.roots), set[Node]()
        while stack:
            node = stack.pop()
            if node in seen or node not in group.members or isinstance(node.op, Reduce | Pick):
                continue
            seen.add(node)
            before = first.get(node)
            if before is not None and before < number:
                if node in passes[before].keep:
                    continue
                if node.shape == space.shape and subtree_cost(group, node) > DEAR:
                    passes[before].keep.append(node)
                    continue
            stack += node.inputs
        one.size = sum(bool(cost.weight(node.op)) for node in seen)
        for node in seen:
            first.setdefault(node, number)


def subtree_cost(group: Group, root: Node, limit: int = 64) -> int:
    """Operations for one element of a node, including its operands inside the group; stops counting
    at `limit`.
    """
    stack, seen, total = [root], {root}, 0
    while stack and total < limit:
        node = stack.pop()
        if node not in group.members:
            total += 1 if node.inputs or node.type.rank else 0
            continue
        if isinstance(node.op, Reduce | Pick):
            continue
        total += cost.weight(node.op)
        for i in node.inputs:
            if i not in seen:
                seen.add(i)
                stack.append(i)
    return total
