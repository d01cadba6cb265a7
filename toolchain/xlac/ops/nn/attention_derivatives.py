"""Derivatives of attention that do not store its weights: backends recompute them tile by tile,
from the maximum score of each query and the sum of exponentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from xlac.ir.composite import Composite
from xlac.ir.graph import Node, pick, zeros
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.nn.attention import Attention, MaskedHeads


@dataclass(frozen=True, eq=False)
class Weighing:
    """Recomputed weights of an attention with separate heads; `weights` in the compute type."""

    op: MaskedHeads
    q: Node
    k: Node
    v: Node
    scores: Node
    seen: list[Node]
    weights: Node

    def grouped(self, x: Node) -> Node:
        """A tensor per query, with heads that share keys on an axis of their own, as scores
        have.
        """
        return build.reshape(x, (*self.scores.shape[:4], x.shape[-1]))

    def with_heads(self, x: Node) -> Node:
        """The inverse of `grouped`, in the type of the operands."""
        apart = build.reshape(x, (*self.q.shape[:3], x.shape[-1]))
        return build.cast(apart, self.q.type.dtype)

    def where_seen(self, change: Node) -> Node:
        """Changes of scores, zero for masked ones."""
        for seen in self.seen:
            change = build.select(seen, change, build.like(0.0, change))
        return change

    def total(self, x: Node) -> Node:
        """The sum over each query's keys, broadcast over them."""
        return build.back(build.reduce(x, "add", 4), x.shape, (4,))

    def product(self, x: Node, y: Node, over: int) -> Node:
        """The product of weights, or changes of scores, rounded to the operands' type, with y:
        summed over keys or, where y is per query, over the queries that share a key.
        """
        x, wide = build.cast(x, self.q.type.dtype), self.scores.type.dtype
        if over == 4:
            return build.dot(x, y, ((4,), (2,)), ((0, 1), (0, 1)), wide)
        return build.cast(build.dot(x, y, ((2, 3), (2, 3)), ((0, 1), (0, 1)), wide), y.type.dtype)


DRAWN = ("unit", "unit", "normal", "normal", "positive", "above_one", "normal")
"""The draws of operands. Maximum scores are positive and scores are small, so that weights are in
the range of real ones: exponentials of larger differences amplify the operands' rounding errors.
Sums of exponentials relative to the maximum are at least 1, so that no weight is above 1.
"""


class Derived(MaskedHeads):
    """Operations given, for each query, the maximum score and the sum of exponentials relative to
    it, in the compute type, (batch, heads, queries).
    """

    def sums_type(self, q: Type, k: Type, v: Type) -> Type:
        """The type of both."""
        (batch, heads, time, _), _, _ = self.shapes(q, k, v)
        return Type(q.dtype.compute, (batch, heads, time))

    def check_kept(self, attended: Type, q: Type, k: Type, v: Type, *kept: Type) -> None:
        """Raises ShapeError where operands 3 to 5 are not results of `attention_sums`."""
        sums = self.sums_type(q, k, v)
        for number, (given, wanted) in enumerate(zip(kept, (attended, sums, sums), strict=True), 3):
            self.check(number, given, wanted)

    def check(self, number: int, given: Type, wanted: Type) -> None:
        """Raises ShapeError for an operand of another type than wanted."""
        if given != wanted:
            name = self.operands[number].rstrip("?")
            problem = f"{self.mnemonic} takes a {name} of {wanted}, got {given}"
            raise ShapeError(problem, operand=number)

    def same(self, kind: type[Composite], *inputs: Node) -> Node:
        """Another operation with the same attributes."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        return Node.of(kind(**given), *inputs)

    def weighing(
        self, q: Node, k: Node, v: Node, masks: Sequence[Node], top: Node, total: Node
    ) -> Weighing:
        """The recomputed weights."""
        q, k, v, masks = self.all_apart(q, k, v, masks)
        scores, seen = self.scores(q, k, masks, self.hidden)
        powers = build.exp(build.sub(scores, _beside(top, scores)))
        return Weighing(self, q, k, v, scores, seen, build.div(powers, _beside(total, scores)))


def _beside(x: Node, scores: Node) -> Node:
    """A number per query, broadcast over its keys."""
    return build.broadcast_to(build.reshape(x, (*scores.shape[:4], 1)), scores.shape)


@declare
class AttentionSums(Derived):
    """`attention`, and what its derivative begins with: (y, top, total).

    `top` is the greatest score of each query and `total` the sum of the exponentials of its scores
    less that, both (batch, heads, queries) and f32 for halves.
    """

    mnemonic = "attention_sums"
    operands = ("q", "k", "v", "mask?")

    def infer(self, *types: Type) -> tuple[Type, ...]:
        q, k, v, *mask = types
        attended, sums = self.attended_type(q, k, v, mask), self.sums_type(q, k, v)
        return attended, sums, sums

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        q, k, v, *masks = inputs
        apart_q, apart_k, apart_v, masks = self.all_apart(q, k, v, masks)
        scores, _ = self.scores(apart_q, apart_k, masks, self.hidden)
        shape = apart_q.shape[:3]
        top = build.reshape(build.reduce(scores, "max", 4), shape)
        powers = build.exp(build.sub(scores, _beside(top, scores)))
        total = build.reshape(build.reduce(powers, "add", 4), shape)
        weights = build.div(powers, _beside(total, scores))
        return self.joined(self.weighted(weights, apart_v, apart_q), q.type.rank), top, total

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """The maximum score changes by the mean change of the scores that equal it."""
        q, k, v, *masks = node.inputs
        y, top, total = (pick(node, n) for n in range(3))
        pairs = zip(tangents, node.inputs, strict=True)
        given = [t or zeros(i.type) for t, i in pairs if i.type.dtype.is_float]
        change = self.same(AttentionChange, q, k, v, y, top, total, *given[:3], *masks, *given[3:])
        w = self.weighing(q, k, v, masks, top, total)
        moved = w.where_seen(_moved(w, given))
        first = build.compare(w.scores, "eq", _beside(top, w.scores))
        share = build.cast(first, w.scores.type.dtype)
        held = build.select(first, moved, build.like(0.0, moved))
        part = build.mul(held, build.div(1.0, w.total(share)))
        up = build.reshape(build.reduce(part, "add", 4), top.shape)
        mean = build.reshape(build.reduce(build.mul(w.weights, moved), "add", 4), top.shape)
        return [change, up, build.mul(total, build.sub(mean, up))]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [s for s in Attention.samples() if s.attributes.get("hidden") is None]


def _moved(w: Weighing, changes: Sequence[Node]) -> Node:
    """The tangents of scores, given those of queries, keys and an additive mask."""
    op, wide = w.op, w.scores.type.dtype
    tq, tk = op.apart(changes[0], op.heads), op.apart(changes[1], op.kv_heads or op.heads)
    across = (((4,), (3,)), ((0, 1), (0, 1)), wide)
    moved = build.add(
        build.dot(w.grouped(tq), w.k, *across), build.dot(w.grouped(w.q), tk, *across)
    )
    moved = build.mul(moved, op.factor(w.q))
    if len(changes) == 4:
        shape = w.scores.shape
        mask = build.compute(changes[3])
        if mask.type.rank > 2:
            mask = build.broadcast_to(mask, (*w.q.shape[:3], shape[4]))
            mask = build.reshape(mask, shape)
        moved = build.add(moved, build.broadcast_to(mask, shape))
    return moved


@declare
class AttentionChange(Derived):
    """How `attention` changes when its operands change by `tq`, `tk`, `tv` and `tmask`; `y`, `top`
    and `total` are what `attention_sums` gives.
    """

    mnemonic = "attention_change"
    operands = ("q", "k", "v", "y", "top", "total", "tq", "tk", "tv", "mask?", "tmask?")

    def infer(self, *types: Type) -> Type:
        q, k, v, *kept, tq, tk, tv = types[:9]
        masks = types[9:]
        attended = self.attended_type(q, k, v, masks[:1])
        self.check_kept(attended, q, k, v, *kept)
        pairs = [(6, tq, q), (7, tk, k), (8, tv, v)]
        pairs += [(10, given, masks[0]) for given in masks[1:]]
        for number, given, wanted in pairs:
            self.check(number, given, wanted)
        return attended

    def linear(self) -> Sequence[Sequence[str]]:
        return (("tq", "tk", "tv", "tmask"),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None] | None:
        (ct,) = cotangents
        if ct is None:
            return [None] * len(node.inputs)
        masks = node.inputs[9:]
        gradient = self.same(AttentionGradient, *node.inputs[:6], ct, *masks[:1])
        parts: list[Node | None] = [pick(gradient, n) for n in range(3)]
        if len(masks) == 2:
            assert isinstance(gradient.op, AttentionGradient)
            parts += [None, gradient.op.of_mask(*gradient.inputs) if linear[10] else None]
        else:
            parts += [None] * len(masks)
        return [None] * 6 + parts

    def expand(self, *inputs: Node) -> Node:
        q, k, v, y, top, total, tq, tk, tv, *masks = inputs
        w = self.weighing(q, k, v, masks[:1], top, total)
        moved = w.where_seen(_moved(w, [tq, tk, tv, *masks[1:]]))
        shares = build.mul(w.weights, moved)
        tv = self.apart(tv, self.kv_heads or self.heads)
        change = build.add(w.product(shares, w.v, 4), w.product(w.weights, tv, 4))
        mean = build.back(build.reduce(shares, "add", 4), change.shape, (4,))
        kept = build.mul(mean, build.compute(w.grouped(self.apart(y, self.heads))))
        return self.joined(w.with_heads(build.sub(change, kept)), q.type.rank)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = []
        for sample in AttentionSums.samples():
            q, k, v, *masks = sample.inputs
            masks += [m for m in masks if m.dtype.is_float]
            kept = AttentionSums(**sample.attributes).infer(*sample.inputs)
            samples.append(Sample((q, k, v, *kept, q, k, v, *masks), sample.attributes, DRAWN))
        return samples


@declare
class AttentionGradient(Derived):
    """The cotangents of q, k and v, from `ct`, that of y. `y`, `top` and `total` are what
    `attention_sums` gives.
    """

    mnemonic = "attention_gradient"
    operands = ("q", "k", "v", "y", "top", "total", "ct", "mask?")

    def infer(self, *types: Type) -> Types:
        q, k, v, *kept, ct = types[:7]
        attended = self.attended_type(q, k, v, types[7:])
        self.check_kept(attended, q, k, v, *kept)
        self.check(6, ct, attended)
        return q, k, v

    def linear(self) -> Sequence[Sequence[str]]:
        return (("ct",),)

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        q, k, *_ = inputs
        w, ct, scores = self._of_scores(*inputs)
        scaled = build.mul(scores, self.factor(w.q))
        by_q = w.with_heads(w.product(scaled, w.k, 4))
        by_k = w.product(scaled, w.grouped(w.q), 3)
        by_v = w.product(w.weights, ct, 3)
        return (
            self.joined(by_q, q.type.rank),
            self.joined(by_k, k.type.rank),
            self.joined(by_v, k.type.rank),
        )

    def of_mask(self, *inputs: Node) -> Node:
        """The cotangent of an additive mask."""
        w, _, scores = self._of_scores(*inputs)
        mask = inputs[7]
        each = build.reshape(scores, (*w.q.shape[:3], scores.shape[4]))
        wide = (1,) * (4 - mask.type.rank) + mask.shape
        axes = [a for a, (n, m) in enumerate(zip(each.shape, wide, strict=True)) if n != m]
        summed = build.reduce(each, "add", axes) if axes else each
        return build.cast(build.reshape(summed, mask.shape), mask.type.dtype)

    def _of_scores(self, *inputs: Node) -> tuple[Weighing, Node, Node]:
        """The weights, the cotangents of the outputs, and those of the scores."""
        q, k, v, y, top, total, ct, *masks = inputs
        w = self.weighing(q, k, v, masks, top, total)
        ct, y = (w.grouped(self.apart(x, self.heads)) for x in (ct, y))
        wide = w.scores.type.dtype
        given = build.dot(ct, w.v, ((4,), (3,)), ((0, 1), (0, 1)), wide)
        each = build.reduce(build.mul(build.compute(ct), build.compute(y)), "add", 4)
        mean = build.back(each, given.shape, (4,))
        return w, ct, w.where_seen(build.mul(w.weights, build.sub(given, mean)))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = []
        for sample in AttentionSums.samples():
            q, k, v, *masks = sample.inputs
            kept = AttentionSums(**sample.attributes).infer(*sample.inputs)
            samples.append(Sample((q, k, v, *kept, kept[0], *masks), sample.attributes, DRAWN))
        return samples
