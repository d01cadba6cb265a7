"""The count of elements that a loss or metric is the mean of: the weight of a batch in averages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, walk
from xlac.ops import build
from xlac.ops.nn.class_loss import Classes
from xlac.ops.reduction.statistics import Mean, count
from xlac.ops.tensor.leaf import Const, Param, param
from xlac.spec.report import Fault, Place

LARGEST_COUNT = 2**53  # beyond it, f64 does not hold every integer
FACTORS = ("mul", "div")
LINEAR = ("cast", "add", "sub", "neg", *FACTORS)


@dataclass(frozen=True, eq=False)
class BatchMean:
    """A mean over a batch: a scalar, and the count of elements that it averages over, which is a
    size or a scalar of the graph. A sum of means with different counts has these as `parts`.
    """

    value: Node
    count: Dim | Node
    parts: tuple[BatchMean, ...] = ()

    @property
    def means(self) -> tuple[BatchMean, ...]:
        """The means whose sum this is: its parts, or itself if it has none."""
        return self.parts or (self,)

    def nodes(self) -> list[Node]:
        """Its nodes: the value, the count where the data decide it, and those of its parts."""
        own = [self.value, self.count] if isinstance(self.count, Node) else [self.value]
        return [*own, *(node for part in self.parts for node in part.nodes())]

    def names(self, name: str) -> list[str]:
        """The names of outputs for `nodes`, of a mean called `name`."""
        own = [name, f"{name}.count"] if isinstance(self.count, Node) else [name]
        more = (part.names(f"{name}.{n}") for n, part in enumerate(self.parts, 1))
        return [*own, *(one for names in more for one in names)]

    def over(self, nodes: Iterator[Node]) -> BatchMean:
        """The same mean with other nodes, given in the order of `nodes`."""
        value = next(nodes)
        number = next(nodes) if isinstance(self.count, Node) else self.count
        return BatchMean(value, number, tuple(part.over(nodes) for part in self.parts))


def batch_mean(value: Node, batch: Dim) -> BatchMean:
    """A scalar as a mean. Its count is that of the elements under a `mean`; the denominator of a
    classification loss, where labels or class weights decide it; else the examples of the batch.

    Terms and factors that do not depend on data, such as a regularizer, do not change the count of
    such a loss. Several losses with different denominators, or one with another mean added, become
    parts, each divided by its own count; a part whose count is 0 is 0.
    """
    node = value
    while node.op.mnemonic == "cast":
        node = node.inputs[0]
    if isinstance(node.op, Mean) and node.inputs[0].shape:
        return BatchMean(value, count(node.inputs[0], node.op.axis))
    numbers, terms = _terms(value)
    rest = terms.pop(None, None)
    if len(terms) == 1 and (rest is None or not _reads_data(rest)):
        return BatchMean(value, numbers[next(iter(terms))])
    if not terms:
        return BatchMean(value, batch)
    parts = [BatchMean(_guarded(terms[key], numbers[key]), numbers[key]) for key in terms]
    parts += [BatchMean(rest, batch)] if rest is not None else []
    total = parts[0].value
    for part in parts[1:]:
        total = build.add(total, part.value)
    return BatchMean(total, batch, tuple(parts))


Key = tuple[object, ...] | None
"""Identifies a denominator of classification losses; None: terms without one."""


def _terms(value: Node) -> tuple[dict[Key, Node], dict[Key, Node]]:
    """The denominators of the classification losses in a scalar, and the scalar as a sum of terms:
    one for each denominator, and one for the rest.
    """
    numbers: dict[Key, Node] = {}
    known: dict[Node, dict[Key, Node]] = {}
    pending, seen = [value], {value}
    while pending:
        node = pending.pop()
        op = node.op
        if isinstance(op, Classes) and op.reduction == "mean":
            number = op.counted(*node.inputs)
            if number is not None:
                key = (op.ignore, *node.inputs[1:])
                numbers[key] = number
                known[node] = {key: node}
        elif op.mnemonic in LINEAR or (isinstance(op, Mean) and not node.inputs[0].shape):
            new = [i for i in node.inputs if not i.shape and i not in seen]
            seen.update(new)
            pending += new
    for node in walk([value]) if numbers else ():
        if node in seen and node not in known:
            known[node] = _split(node, [known.get(i, {None: i}) for i in node.inputs])
    return numbers, dict(known.get(value, {None: value}))


def _split(node: Node, operands: list[dict[Key, Node]]) -> dict[Key, Node]:
    """The terms (see `_terms`) of a scalar, from those of its operands."""
    if all(list(terms) == [None] for terms in operands):
        return {None: node}
    first, *others = operands
    if node.op.mnemonic in ("add", "sub"):
        minus = node.op.mnemonic == "sub"
        joined = dict(first)
        for key, term in others[0].items():
            if key in joined:
                joined[key] = (
                    build.sub(joined[key], term) if minus else build.add(joined[key], term)
                )
            else:
                joined[key] = build.apply1("neg", term) if minus else term
        return joined
    if node.op.mnemonic in FACTORS:
        swapped = node.op.mnemonic == "mul" and list(first) == [None]
        terms, factor = (others[0], first) if swapped else (first, others[0])
        if list(factor) != [None]:
            return {None: node}  # a product of two means
        op, by = node.op.mnemonic, factor[None]
        return {
            key: build.apply1(op, by, term) if swapped else build.apply1(op, term, by)
            for key, term in terms.items()
        }
    return {key: node.with_inputs((term,)) for key, term in first.items()}


def _reads_data(value: Node) -> bool:
    """Whether a value depends on an input."""
    return any(isinstance(n.op, Param) and param(n).kind == "input" for n in walk([value]))


def _guarded(value: Node, number: Node) -> Node:
    """A mean, or 0 where its count is 0."""
    return build.select(build.compare(number, "eq", 0.0), build.like(0.0, value), value)


def _constant(node: Node) -> Any:
    """The value of a constant scalar, else None."""
    while node.op.mnemonic == "cast":
        node = node.inputs[0]
    return node.op.value.item() if isinstance(node.op, Const) else None


def check_count(number: Node, place: Place) -> None:
    """Raises Fault for a constant count that is not a number in 0 < count <= LARGEST_COUNT."""
    value = _constant(number)
    if value is not None and (isinstance(value, bool) or not 0 < value <= LARGEST_COUNT):
        shown = str(value).lower() if isinstance(value, bool) else value
        problem = f"a count is a number more than 0, found {shown}"
        raise Fault(
            "XL1012", problem, place.span, "count: sum(f32(mask)); mean(…) counts by itself"
        )


def check_finite(value: Node, place: Place) -> None:
    """Raises Fault for a constant that is not finite."""
    number = _constant(value)
    if isinstance(number, float) and not isfinite(number):
        raise Fault("XL1012", f"this is {number} for any data", place.span)
