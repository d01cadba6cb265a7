"""`flex_attention` block by block, for masks that leave blocks out: only the blocks of keys that a
block mask lists are computed, with running maxima and sums of each row's softmax, so that a program
holds one block of scores and not their matrix.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule
from torch.fx import Node as FxNode
from torch.fx.experimental.proxy_tensor import make_fx

from xlac.frontends.torch.control import Bodies
from xlac.frontends.torch.families.nn.flex_attention import traced
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan, While
from xlac.ops.tensor.dynamic_slice import DynSlice
from xlac_sdk.dtypes import DType

I64 = DType.I64
Decompositions = Mapping[Any, Callable[..., Any]]


def attended(
    bodies: Bodies, node: FxNode, args: Sequence[Any], decompositions: Decompositions
) -> list[Any]:
    """The results of `flex_attention`, whose arguments are `args`: by blocks, or by the matrix of
    scores where a mask has one block of keys, or a size is open. Raises NotExpressible.
    """
    blocks = BlockedAttention.of(args)
    if blocks is None:
        return bodies.inner(*traced(node, args, decompositions))
    return blocks.results(bodies, node, decompositions)


@dataclass(frozen=True, slots=True)
class BlockedAttention:
    """An attention by blocks: queries (batch, heads, rows, width), keys and values with as many or
    fewer heads; which blocks of keys each block of queries sees: counts (batch, heads, blocks), and
    their numbers in (batch, heads, blocks, most), partly and wholly seen.
    """

    q: Node
    k: Node
    v: Node
    score: Any  # the two functions: graphs
    mask: Any
    scale: float
    counts: Sequence[Node]
    numbers: Sequence[Node]
    rows: int  # of a block of queries
    columns: int  # of a block of keys
    captured: Sequence[Sequence[Any]]  # what the functions read besides: of scores, of the mask

    @staticmethod
    def of(args: Sequence[Any]) -> BlockedAttention | None:
        """The attention that arguments of `flex_attention` state; None where there is one block of
        keys, or a size is open.
        """
        q, k, v, score, block_mask, scale = args[:6]
        counts, numbers = block_mask[2:6:2], block_mask[3:6:2]
        lists = [(c, n) for c, n in zip(counts, numbers, strict=True) if c is not None]
        rows, columns, mask = block_mask[-3:]
        tensors = [q, k, v, *(x for pair in lists for x in pair)]
        if not all(isinstance(x, Node) and _known(x.type) for x in tensors):
            return None
        if not isinstance(rows, int) or not isinstance(columns, int) or k.shape[2] <= columns:
            return None
        captured = [list(given) for given in (*args[7:9], (), ())[:2]]
        known, numbered = zip(*lists, strict=True)
        return BlockedAttention(
            q, k, v, score, mask, scale, known, numbered, rows, columns, captured
        )

    @property
    def together(self) -> tuple[int, int]:
        """How many batches and heads are computed at once: all where they share a mask, else 1."""
        batch, heads = self.q.shape[:2]
        assert isinstance(batch, int) and isinstance(heads, int)
        shared = all(c.shape[:2] == (1, 1) for c in self.counts)
        return (batch, heads) if shared else (1, 1)

    def results(self, bodies: Bodies, node: FxNode, decompositions: Decompositions) -> list[Node]:
        """The attention, the logarithms of its sums, and its largest scores, these in base 2."""
        batch, heads, length, _ = self.q.shape
        blocks, many = self.numbers[0].shape[2], self.together
        assert isinstance(batch, int) and isinstance(heads, int) and isinstance(blocks, int)
        q = _filled(self.q, blocks * self.rows)
        k, v = (_filled(x, self._columns()) for x in (self.k, self.v))
        more = [x for x in (*self.captured[0], *self.captured[1]) if isinstance(x, Node)]
        module = self._traced(node, decompositions)
        given = [q, k, v, *self.counts, *self.numbers, *more, *bodies.extents()]

        def of_block(number: Node, *inner: Node) -> list[Node]:
            line = build.apply1("floor_divide", number, blocks)
            lines = build.apply1("floor_divide", line, heads), build.apply1("rem", line, heads)
            place = (*lines, build.apply1("rem", number, blocks))
            return self._row_of_blocks(bodies, module, place, inner)

        count = batch * heads * blocks // (many[0] * many[1])
        body = build.graph("rows", [Type(I64), *(x.type for x in given)], of_block)
        found = build.results(Node.of(Scan(body, count, 0, 1), build.iota((count,), 0), *given))
        if many != (1, 1):
            found = tuple(build.transpose(x, [1, 2, 0, *range(3, x.type.rank)]) for x in found)
        shape = (batch, heads, blocks * self.rows)
        whole = [build.reshape(x, (*shape, *x.shape[4:])) for x in found]
        return [build.cut(x, 2, 0, length) for x in whole]

    def _columns(self) -> int:
        size = self.k.shape[2]
        assert isinstance(size, int)
        return -(-size // self.columns) * self.columns

    def _heads_of_keys(self) -> tuple[int, int]:
        """Batches and heads of keys, of which there may be fewer than of queries."""
        batch, heads = self.k.shape[:2]
        assert isinstance(batch, int) and isinstance(heads, int)
        return batch, heads

    def _row_of_blocks(
        self, bodies: Bodies, module: GraphModule, place: tuple[Node, ...], inner: Sequence[Node]
    ) -> list[Node]:
        """The results of one block of queries, at (batch, head, block): of all batches and heads
        where these are computed together. Long because it has the two bodies of a loop.
        """
        lists, many = len(self.counts), self.together
        q, k, v, *rest = inner
        counts, numbers, rest = rest[:lists], rest[lists : 2 * lists], rest[2 * lists :]
        batch, head, at = place
        key_batches, key_heads = self._heads_of_keys()
        of_keys = many if many == (1, 1) else (key_batches, key_heads)
        heads = self.q.shape[1]
        assert isinstance(heads, int)
        key_line = [
            build.constant(0, I64) if key_batches == 1 else batch,
            build.apply1("floor_divide", head, heads // key_heads),
        ]
        first = build.mul(at, self.rows)
        queries = _slice(q, (batch, head, first, 0), (*many, self.rows, q.shape[3]))
        seen = [build.cast(build.reshape(_slice(c, place, (1, 1, 1)), ()), I64) for c in counts]
        orders = [
            build.reshape(_slice(n, (*place, 0), (1, 1, 1, n.shape[3])), (n.shape[3],))
            for n in numbers
        ]
        total = seen[0] if lists == 1 else build.add(*seen)
        precise = DType.F64 if q.type.dtype is DType.F64 else DType.F32
        begun = [
            build.full(-math.inf, (*many, self.rows), precise),
            build.full(0.0, (*many, self.rows), precise),
            build.full(0.0, (*many, self.rows, v.shape[3]), precise),
        ]
        fixed = [total, queries, k, v, batch, head, *key_line, first, seen[0], *orders, *rest]
        state = [build.constant(0, I64), *begun, *fixed]
        types = [x.type for x in state]

        def goes_on(*carried: Node) -> Node:
            return build.compare(carried[0], "lt", carried[4])

        def step(*carried: Node) -> list[Node]:
            turn, state, same = carried[0], carried[1:4], carried[4:]
            _, queries, k, v, batch, head, key_batch, key_head, first, seen = same[:10]
            orders, rest = same[10 : 10 + lists], list(same[10 + lists :])
            start = build.mul(_chosen(turn, seen, orders), self.columns)
            keys, values = (
                _slice(x, (key_batch, key_head, start, 0), (*of_keys, self.columns, x.shape[3]))
                for x in (k, v)
            )
            places = [
                build.add(build.iota((size,), 0), begin)
                for size, begin in (
                    (many[0], batch),
                    (many[1], head),
                    (self.rows, first),
                    (self.columns, start),
                )
            ]
            known = len(rest) - len(bodies.extents())
            tensors = [queries, keys, values, *places, *state, *rest[:known]]
            made = bodies.inside(module, tensors, rest[known:])
            return [build.add(turn, 1), *made, *same]

        loop = While(build.graph("left", types, goes_on), build.graph("block", types, step))
        largest, sums, values = build.results(Node.of(loop, *state))[1:4]
        nothing = build.compare(sums, "eq", 0.0)
        safe = build.select(nothing, 1.0, sums)
        by = build.back(safe, values.shape, (3,))
        logarithm = build.add(build.log(safe), largest)  # -inf where nothing is seen
        return [
            build.cast(build.div(values, by), q.type.dtype),
            *(build.div(x, math.log(2)) for x in (logarithm, largest)),
        ]

    def _traced(self, node: FxNode, decompositions: Decompositions) -> GraphModule:
        """One block added to what is known of a block of queries, as ATen operations."""
        flex = importlib.import_module("torch.nn.attention.flex_attention")
        dynamo = importlib.import_module("torch._dynamo._trace_wrapped_higher_order_op")
        q, v = (_meta(node.args[n]) for n in (0, 2))
        mode = detect_fake_mode([q, v])
        assert mode is not None
        precise = torch.float64 if q.dtype is torch.float64 else torch.float32
        lists: list[Any] = [*node.args[7:9], (), ()][:2]
        captured = [[_meta(x) for x in given] for given in lists]
        none = [(None,) * len(given) for given in captured]
        score = flex._vmap_for_bhqkv(self.score, prefix=(0,), suffix=none[0])
        mask = flex._vmap_for_bhqkv(self.mask, prefix=(), suffix=none[1])
        length = self.k.shape[2]

        def block(*given: torch.Tensor) -> list[torch.Tensor]:
            queries, keys, values, b, h, i, j, largest, sums, total, *more = given
            for_score, for_mask = (
                [more.pop(0) if isinstance(x, torch.Tensor) else x for x in names]
                for names in captured
            )
            shared = len(h) // keys.shape[1]
            keys, values = (
                x.to(precise).repeat_interleave(shared, 1).expand(len(b), -1, -1, -1)
                for x in (keys, values)
            )
            scores = queries.to(precise) @ keys.transpose(2, 3)
            with dynamo.TransformGetItemToIndex():
                scores = (scores * self.scale).to(precise)
                seen = mask(b, h, i, j, *for_mask) & (j < length)
                scores = score(scores, b, h, i, j, *for_score)
            scores = torch.where(seen, scores, -math.inf).to(precise)
            most = torch.maximum(largest, scores.amax(3))
            base = torch.where(most == -math.inf, 0.0, most)
            weights = torch.exp(scores - base[..., None])
            decay = torch.exp(largest - base)
            added = weights.to(queries.dtype).to(precise) @ values
            return [most, sums * decay + weights.sum(3), total * decay[..., None] + added]

        many = self.together
        of_keys = many if many == (1, 1) else self._heads_of_keys()
        with mode, torch.no_grad():
            tensors = [x for given in captured for x in given if isinstance(x, torch.Tensor)]
            places = [torch.empty(n, dtype=torch.int64) for n in (*many, self.rows, self.columns)]
            operands = [
                torch.empty(*many, self.rows, q.shape[3], dtype=q.dtype),
                *(torch.empty(*of_keys, self.columns, x.shape[3], dtype=q.dtype) for x in (q, v)),
            ]
            state = [torch.empty(*many, self.rows, dtype=precise) for _ in range(2)]
            state.append(torch.empty(*many, self.rows, v.shape[3], dtype=precise))
            trace = make_fx(block, decomposition_table=dict(decompositions))
            return trace(*operands, *places, *state, *tensors)


def _meta(x: Any) -> Any:
    """The tensor of a node; a number itself."""
    return x.meta["val"] if isinstance(x, FxNode) else x


def _known(type: Type) -> bool:
    return all(isinstance(size, int) for size in type.shape)


def _filled(x: Node, size: int) -> Node:
    """(batch, heads, length, width) with zeros up to a length."""
    length = x.shape[2]
    assert isinstance(length, int)
    return build.pad(x, 0.0, [0] * 4, [0, 0, size - length, 0])


def _slice(x: Node, starts: Sequence[Node | int], sizes: Sequence[Any]) -> Node:
    """A part of x; an axis that is taken whole, or has size 1, begins at 0."""
    zero = build.constant(0, I64)
    begin = [
        zero if isinstance(s, int) or n == 1 else s for s, n in zip(starts, x.shape, strict=True)
    ]
    return Node.of(DynSlice(tuple(sizes)), x, *begin)


def _chosen(turn: Node, seen: Node, orders: Sequence[Node]) -> Node:
    """The number of the block of keys of a turn: of the first list, then of the second."""
    taken = [build.cast(build.take(orders[0], turn, 0), I64)]
    if len(orders) == 1:
        return taken[0]
    later = build.cast(build.take(orders[1], build.sub(turn, seen), 0), I64)
    return build.select(build.compare(turn, "lt", seen), taken[0], later)
