"""Writes to an entry of a tensor list (TensorArray). The converter expresses one as a concatenation
of the entries before it, the new one and the entries after it: two slices whose sizes differ from
one step of a loop to the next. Together they are an update in place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from xlac.frontends.known import DataDependent
from xlac.frontends.tflite.file.model_file import ModelFile, SubGraph
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build


@dataclass(frozen=True, slots=True)
class ListWrite:
    """The tensors of a write, by number: the list, the new entry, the begin and size of the slice
    before it and of that after it.
    """

    source: int
    item: int
    before: tuple[int, int]
    after: tuple[int, int]

    def node(self, value: Callable[[int], Node], constant: Callable[[Node], Array | None]) -> Node:
        """The list with the new entry. Raises DataDependent where the slices are not known to be
        those before and after it.
        """
        source, item = value(self.source), value(self.item)
        (begin, size), (start, rest) = map(value, self.before), map(value, self.after)
        at, sizes = _split(size, constant)
        end, starts = _split(start, constant)
        whole = _all(constant(begin), 0) and _all(sizes, -1) and _all(constant(rest), -1)
        if not (whole and _all(starts, 0) and _is_sum(end, at, item.shape[0], constant)):
            raise DataDependent(
                "the sizes of its slices differ from one step of a loop to the next"
            )
        zero = build.constant(0, at.type.dtype)
        others = [zero] * (source.type.rank - 1)
        return build.apply1("dyn_update", source, item, at, *others)


def list_writes(file: ModelFile, graph: SubGraph) -> tuple[dict[int, ListWrite], set[int]]:
    """The writes of a sub-graph by the number of their concatenation; and the numbers of their
    slices, which have no other use.
    """
    names = {}
    for number, operator in enumerate(graph.operators):
        with suppress(ShapeError):
            names[number] = file.operator_name(operator.table)[0]
    if "CONCATENATION" not in names.values() or "SLICE" not in names.values():
        return {}, set()
    makers = {index: n for n, operator in enumerate(graph.operators) for index in operator.outputs}
    uses = Counter(index for operator in graph.operators for index in operator.inputs)
    uses.update(graph.outputs)
    writes: dict[int, ListWrite] = {}
    slices: set[int] = set()
    for number, operator in enumerate(graph.operators):
        if names.get(number) != "CONCATENATION" or len(operator.inputs) != 3:
            continue
        first, item, last = operator.inputs
        parts = [makers.get(first, -1), makers.get(last, -1)]
        if not all(names.get(n) == "SLICE" and n < number for n in parts):
            continue
        before, after = (graph.operators[n].inputs for n in parts)
        if len(before) != 3 or len(after) != 3 or before[0] != after[0]:
            continue
        constant = all(_is_constant(graph, n) for n in (*before[1:], *after[1:]))
        if uses[first] == uses[last] == 1 and not constant:
            pairs = (before[1], before[2]), (after[1], after[2])
            writes[number] = ListWrite(before[0], item, *pairs)
            slices |= set(parts)
    return writes, slices


def _is_constant(graph: SubGraph, index: int) -> bool:
    return 0 <= index < len(graph.tensors) and graph.tensors[index].data is not None


def _all(array: Array | None, number: int) -> bool:
    return array is not None and bool((np.asarray(array) == number).all())


def _split(vector: Node, constant: Callable[[Node], Array | None]) -> tuple[Node, Array | None]:
    """The first entry of a vector that is joined from a number and a constant, and that; the vector
    itself and None for another.
    """
    if vector.op.mnemonic == "concat" and len(vector.inputs) == 2:
        head, tail = vector.inputs
        while head.op.mnemonic == "reshape":
            head = head.inputs[0]
        if head.shape == ():
            return head, constant(tail)
    return vector, None


def _is_sum(
    end: Node, start: Node, count: object, constant: Callable[[Node], Array | None]
) -> bool:
    """Whether one number is known to be `count` more than another."""
    if end.op.mnemonic != "add" or start not in end.inputs:
        return False
    (other,) = [n for n in end.inputs if n is not start] or [start]
    return _all(constant(other), count) if isinstance(count, int) else False
