"""Tracks axes through views: an axis is a product of factors, which reshapes regroup and split."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.dims import Dim, Shape, volume, whole
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.view import Broadcast, Reshape, Transpose

Ints = tuple[int, ...]
Axes = tuple[Ints, ...]
"""The factors of each axis of a value, outermost first. An axis of one element has none."""

VIEWS = (Reshape, Transpose, Broadcast)


class Factors:
    """Factors by number, with their sizes. A factor that a reshape split is replaced by its two
    parts from then on.
    """

    def __init__(self) -> None:
        self.sizes: list[Dim] = []
        self.parts: dict[int, Ints] = {}

    def of(self, shape: Shape) -> Axes:
        """New factors, one for each axis of a value."""
        return tuple(() if size == 1 else (self._add(size),) for size in shape)

    def _add(self, size: Dim) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def flat(self, *axes: Ints) -> Ints:
        """The factors of some axes, with those that were split replaced."""
        flattened: list[int] = []
        for factor in (f for axis in axes for f in axis):
            flattened += self.flat(self.parts[factor]) if factor in self.parts else (factor,)
        return tuple(flattened)

    def size(self, factors: Ints) -> Dim:
        """The length of an axis made of these factors."""
        return volume(tuple(self.sizes[f] for f in self.flat(factors)))

    def below(self, node: Node, axes: Axes) -> Axes | None:
        """The axes of a view's operand, given those of the view; None when their factors do not
        divide into each other.
        """
        (x,) = node.inputs
        match node.op:
            case Transpose(perm=perm):
                axis_of = dict(zip(perm, axes, strict=True))
                return tuple(axis_of[a] for a in range(len(perm)))
            case Broadcast(axes=places):
                return tuple(
                    () if size == 1 else axes[a] for a, size in zip(places, x.shape, strict=True)
                )
            case _:
                return self._regrouped(self.flat(*axes), x.shape)

    def _regrouped(self, factors: Ints, shape: Shape) -> Axes | None:
        left = list(factors)
        groups: list[Ints] = []
        for size in shape:
            taken: list[int] = []
            while size != 1:
                if not left or size == 0:
                    return None
                first = left.pop(0)
                rest = whole(size, self.sizes[first])
                if rest is None:
                    inner = whole(self.sizes[first], size)
                    if inner is None:
                        return None
                    self.parts[first] = first, second = self._add(size), self._add(inner)
                    left.insert(0, second)
                    rest = 1
                taken.append(first)
                size = rest
            groups.append(tuple(taken))
        return None if left else tuple(groups)

    def unrepeated(self, node: Node, axes: Axes) -> tuple[Node, Axes]:
        """The operand of the last broadcast in a chain of views; the value itself where there is
        none.
        """
        unrepeated, chain = (node, axes), (node, axes)
        while isinstance(chain[0].op, VIEWS) and (inner := self.below(*chain)) is not None:
            repeats = isinstance(chain[0].op, Broadcast)
            chain = chain[0].inputs[0], inner
            if repeats:
                unrepeated = chain
        return unrepeated

    def arranged(
        self, node: Node, axes: Axes, wanted: Sequence[Ints], stretch: bool = True
    ) -> Node:
        """A value rearranged to have an axis for each factor group in `wanted`: broadcast along
        those it lacks or, without `stretch`, of one element where it lacks all factors.
        """
        has = self.flat(*axes)
        order = [f for group in wanted for f in self.flat(group) if f in has]
        assert sorted(order) == sorted(has), "every factor has a place"
        apart = build.reshape(node, [self.sizes[f] for f in has])
        moved = build.transpose(apart, [has.index(f) for f in order])
        kept = [
            f
            for group in wanted
            for f in self.flat(group)
            if f in has or stretch or any(g in has for g in self.flat(group))
        ]
        full = build.spread(
            moved, tuple(self.sizes[f] for f in kept), [kept.index(f) for f in order]
        )
        shape = [
            volume(tuple(self.sizes[f] for f in self.flat(group) if f in kept)) for group in wanted
        ]
        return build.reshape(full, shape)
