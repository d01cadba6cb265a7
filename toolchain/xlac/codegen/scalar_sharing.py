"""Groups that differ only in scalar constants share kernels, which take those as an argument.

Layers of a quantized model differ in scales and zero points, and nothing else. Where all groups of
a program are known, those of one `Skeleton` (their structure without such numbers) are lowered as
one group, whose numbers are elements of a small constant array (`ScalarArgument`); each group has
an array of its own. Numbers that are equal in all of them stay immediate.

A number is part of the skeleton where code depends on its value: only a few operations take one
from memory by the same instructions, and those not numbers that simplify them (`_as_argument`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from xlac.codegen.core.lowered_group import PackedConstant
from xlac.codegen.scalar_argument import ScalarArgument
from xlac.fusion.group import Group, Kind, is_immediate, open_sizes
from xlac.ir.dims import symbols
from xlac.ir.graph import Node, walk
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops.scalar.arithmetic import Add, Div, Mul, Sub
from xlac.ops.structure import leaf, operation, types
from xlac.ops.tensor.leaf import Const, Param
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

VIEWS = (Broadcast, Reshape, Slice, Transpose)

Bits = tuple[Type, bytes]
Read = tuple[Node, int]
"""A node and the number of its operand that is a constant of equal elements, perhaps a view."""


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A group without the numbers that kernels can take as an argument.

    Groups with equal `key` differ in those only: `nodes`, the inputs and nodes of the group
    without them, and `numbers`, by where they are read, correspond one to one. Neither depends on
    the order in which the graph has the nodes, nor on which of the numbers happen to be equal.
    """

    key: str
    nodes: tuple[Node, ...]
    numbers: Mapping[Read, Node]


def skeleton(group: Group, target: Target) -> Skeleton | None:
    """The skeleton of a group; None if its kernels cannot be shared in this way."""
    libraries = target.products or target.convolutions or target.attentions
    if group.kind is Kind.CUSTOM or (
        libraries and group.kind in (Kind.DOT, Kind.CONV, Kind.ATTENTION)
    ):
        return None  # other code reads numbers there
    writer = _SkeletonWriter(group)
    return writer.skeleton() if writer.whole else None


class _SkeletonWriter:
    """Walks a group from its outputs, so that nodes have the order in which they are read."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.number: dict[Node, int] = {}
        self.lines = [group.kind.value]
        self.numbers: dict[Read, Node] = {}
        self.literals: list[Node] = []  # constants of equal elements, and views, that are in lines
        self.constants: dict[Node, Node] = {}  # a constant of equal elements, by its views
        members = list(walk(group.outputs, given=group.inputs))
        self.folded = _folded(members)
        self.whole = group.anchor in members and len(members) == len(group.nodes)
        for node in members if self.whole else ():
            if not self._is_constant(node) or node in group.outputs:
                self._node(node)

    def skeleton(self) -> Skeleton:
        """The skeleton, once all nodes were processed."""
        lines = [*self.lines, str(self.number[self.group.anchor])]
        lines.append(" ".join(str(self.number[node]) for node in self.group.outputs))
        for size in open_sizes(self.group):
            lines += [f"{s.name} {s.min} {s.max} {s.opt} {s.multiple_of}" for s in symbols(size)]
        return Skeleton("\n".join(lines), (*self.number, *self.literals), self.numbers)

    def _is_constant(self, node: Node) -> bool:
        """Whether a node is a constant of equal elements or a view of one, made in this group."""
        if node in self.constants:
            return True
        if is_immediate(node):
            self.constants[node] = node
            return True
        if node not in self.group.members or not isinstance(node.op, Broadcast | Reshape):
            return False
        if not self._is_constant(node.inputs[0]):
            return False
        self.constants[node] = self.constants[node.inputs[0]]
        return True

    def _node(self, node: Node) -> None:
        """Adds the line of a node."""
        operands = " ".join(self._operand(node, k, i) for k, i in enumerate(node.inputs))
        self._add(node, f"{operation(node)} of {operands}")

    def _operand(self, node: Node, number: int, given: Node) -> str:
        """The text of an operand. Numbers and other constants are in it only where code may depend
        on them.
        """
        if not self._is_constant(given):
            if given not in self.number:
                self._add(given, self._given(given))
            return str(self.number[given])
        constant = self.constants[given]
        chain = [given]
        while chain[-1] is not constant:
            chain.append(chain[-1].inputs[0])
        short = leaf(constant)
        if constant not in self.folded and _as_argument(node, constant):
            short = "number"
            self.numbers[node, number] = constant
        else:
            self.literals += chain
        parts = [*(f"{operation(view)}: {types(view)}" for view in chain[:-1]), short]
        return f"({'; '.join(parts)}: {types(constant)})"

    def _given(self, node: Node) -> str:
        """The text of an input."""
        if not isinstance(node.op, Const):
            return leaf(node)
        return operation(node) if node in self.folded else "const"

    def _add(self, node: Node, text: str) -> None:
        self.number[node] = len(self.number)
        self.lines.append(f"{text}: {types(node)}")


def _folded(members: Sequence[Node]) -> set[Node]:
    """The constants from which nodes are computed that depend on nothing else: perhaps while
    kernels are written (`operands.folded`). Views do not count, as their elements are read in
    place.
    """
    known: set[Node] = set()
    for node in members:
        if node.inputs and all(i in known or _is_known(i) for i in node.inputs):
            known.add(node)
    needed: set[Node] = set()
    for node in reversed(members):
        if node in known and (node in needed or not isinstance(node.op, VIEWS)):
            needed.update(node.inputs)
    return needed


def _is_known(node: Node) -> bool:
    return isinstance(node.op, Const) or (isinstance(node.op, Param) and node.op.kind == "weight")


def _as_argument(node: Node, constant: Node) -> bool:
    """Whether code that computes a node is the same whatever number the constant is: not where one
    changes nothing or only the sign, nor where a shift or an exact reciprocal replaces it.
    """
    dtype = constant.type.dtype
    if not isinstance(node.op, Add | Sub | Mul | Div) or dtype is DType.BOOL:
        return False
    assert isinstance(constant.op, Const)
    number = constant.op.uniform
    assert number is not None
    if not math.isfinite(number) or abs(number) in (0, 1):
        return False
    if isinstance(node.op, Add | Sub):
        return True
    return not _power_of_two(number) and (isinstance(node.op, Mul) or dtype.is_float)


def _power_of_two(number: float) -> bool:
    if isinstance(number, float):
        return math.frexp(abs(number))[0] == 0.5
    return abs(number) & (abs(number) - 1) == 0


class SharedKernels:
    """The group that is lowered for all groups of one skeleton: the first one, with numbers that
    differ among them as elements of arrays.
    """

    def __init__(self, group: Group, skeletons: Sequence[Skeleton]) -> None:
        """`group` is that of the first of the skeletons."""
        self.first = first = skeletons[0]
        self.places: dict[tuple[Bits, ...], tuple[DType, int]] = {}
        columns: dict[Read, tuple[Bits, ...]] = {}
        each = zip(*(s.numbers.values() for s in skeletons), strict=True)
        for read, constants in zip(first.numbers, each, strict=True):
            column = tuple(map(_bits, constants))
            if len(set(column)) > 1:
                columns[read] = column
        counts: dict[DType, int] = {}
        for column in columns.values():
            if column not in self.places:
                dtype = column[0][0].dtype.compute
                self.places[column] = dtype, counts.get(dtype, 0)
                counts[dtype] = counts.get(dtype, 0) + 1
        self.columns = columns
        self.arrays = self.arrays_of(first)
        arguments = {column: self._argument(first, read) for read, column in columns.items()}
        self.new: dict[Node, Node] = {}
        self.group = _with_operands(
            group, {read: arguments[column] for read, column in columns.items()}, self.new
        )

    def arrays_of(self, skeleton: Skeleton) -> dict[DType, PackedConstant]:
        """The numbers of one of the groups, by dtype."""
        numbers = list(skeleton.numbers.values())
        found: dict[DType, dict[int, int | float | bool]] = {}
        for index, read in enumerate(self.first.numbers):
            if read in self.columns:
                dtype, place = self.places[self.columns[read]]
                found.setdefault(dtype, {})[place] = _uniform(numbers[index])
        return {
            dtype: _packed(np.array([values[k] for k in range(len(values))], dtype.numpy), dtype)
            for dtype, values in found.items()
        }

    def replacements(
        self, skeleton: Skeleton
    ) -> dict[Node | PackedConstant, Node | PackedConstant]:
        """What of one of the groups replaces the nodes and arrays of the group that was lowered."""
        nodes = zip(self.first.nodes, skeleton.nodes, strict=True)
        found: dict[Node | PackedConstant, Node | PackedConstant] = {
            self.new.get(old, old): own for old, own in nodes
        }
        own_arrays = self.arrays_of(skeleton)
        return found | {array: own_arrays[dtype] for dtype, array in self.arrays.items()}

    def _argument(self, first: Skeleton, read: Read) -> Node:
        constant = first.numbers[read]
        dtype, place = self.places[self.columns[read]]
        assert isinstance(constant.op, Const)
        op = ScalarArgument(constant.op.value, array=self.arrays[dtype], place=place)
        return Node(op, (), constant.types, constant.origin)


def _with_operands(group: Group, arguments: Mapping[Read, Node], new: dict[Node, Node]) -> Group:
    """A group that reads `arguments` in place of constants; `new` gets its nodes by the old ones.
    Views of an argument are nodes of their own.
    """
    views: dict[tuple[Node, Node], Node] = {}

    def viewed(node: Node, argument: Node) -> Node:
        if not node.inputs:
            return argument
        if (node, argument) not in views:
            views[node, argument] = node.with_inputs((viewed(node.inputs[0], argument),))
        return views[node, argument]

    for node in walk(group.outputs, given=group.inputs):
        operands = tuple(
            viewed(given, arguments[node, k]) if (node, k) in arguments else new.get(given, given)
            for k, given in enumerate(node.inputs)
        )
        new[node] = node if operands == node.inputs else node.with_inputs(operands)
    outputs = tuple(new[node] for node in group.outputs)
    given = (*group.inputs, *arguments.values())
    nodes = tuple(walk(outputs, given=given))
    members = set(nodes)
    inputs = dict.fromkeys(i for node in nodes for i in node.inputs if i not in members)
    anchor = new[group.anchor]
    return Group(group.kind, anchor, nodes, tuple(inputs), outputs, group.reason)


def _bits(constant: Node) -> Bits:
    assert isinstance(constant.op, Const)
    return constant.type, constant.op.value.reshape(-1)[:1].tobytes()


def _uniform(constant: Node) -> int | float | bool:
    assert isinstance(constant.op, Const)
    number = constant.op.uniform
    assert number is not None
    return number


def _packed(array: Array, dtype: DType) -> PackedConstant:
    key = f"numbers {array.tobytes().hex()}"
    return PackedConstant(dtype, array.size, (), partial(_given, array), key)


def _given(array: Array) -> Array:
    return array
