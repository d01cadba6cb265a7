"""Results that may take the memory of what they are computed from: beside a product, and of several
nests.
"""

from __future__ import annotations

from contraction_harness import TARGETS, agree, group, param

from xlac.codegen.lower import lower
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.scalar.exponential import Exp
from xlac_sdk.dtypes import DType

AVX512 = TARGETS["avx512"]


def square_product() -> Node:
    left, right = (param(name, Type(DType.F32, (16, 16))) for name in "ab")
    return Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), left, right)


def test_a_residual_that_is_scaled_before_is_read_at_the_same_index() -> None:
    square = square_product()
    r = param("r", square.type)
    made = lower(group(Kind.DOT, square, build.add(square, build.mul(r, 0.9))), AVX512, "kernel")
    assert [b for _, b in made.in_place] == [r]
    crossed = build.add(square, build.mul(build.transpose(r, (1, 0)), 0.9))
    assert lower(group(Kind.DOT, square, crossed), AVX512, "kernel").in_place == ()


def test_results_moved_alike_are_one_place_for_an_operand() -> None:
    """Two transpositions of the same kind lead to the same index: what both read is read there."""
    square = square_product()
    r = param("r", square.type)
    first = build.add(build.transpose(square, (1, 0)), r)
    second = build.add(build.transpose(build.mul(square, 2.0), (1, 0)), r)
    made = lower(group(Kind.DOT, square, first, second), AVX512, "kernel")
    assert {a for a, _ in made.in_place} == {first, second}
    for target in TARGETS.values():
        agree(group(Kind.DOT, square, first, second), target)


def test_nests_of_several_shapes_overwrite_what_one_of_them_reads() -> None:
    x, y = (param(name, Type(DType.F32, (n, n))) for name, n in (("x", 8), ("y", 4)))
    first, second = Node.of(Exp(), x), Node.of(Exp(), y)
    made = lower(group(Kind.ELEMENTWISE, first, first, second), AVX512, "k")
    assert set(made.in_place) == {(first, x), (second, y)}
    part = Node.of(Exp(), build.slice_(x, (0, 0), (4, 4)))
    made = lower(group(Kind.ELEMENTWISE, first, first, part), AVX512, "k")
    assert not made.in_place  # the other nest may come later


def test_what_is_read_through_a_reshape_is_overwritten() -> None:
    """The same elements in the same order; two axes exchanged are others."""
    x = param("x", Type(DType.F32, (6, 8)))
    apart = build.reshape(x, (2, 3, 8))
    doubled = build.mul(apart, 2.0)
    made = lower(group(Kind.ELEMENTWISE, doubled, apart, doubled), AVX512, "k")
    assert (doubled, x) in made.in_place
    turned = build.reshape(build.transpose(x, (1, 0)), (2, 3, 8))
    moved = build.mul(turned, 2.0)
    assert not lower(group(Kind.ELEMENTWISE, moved, *_between(moved, x)), AVX512, "k").in_place


def _between(node: Node, source: Node) -> list[Node]:
    """The nodes from below `source` up to a node, in order."""
    if node is source or not node.inputs:
        return []
    return [*(n for i in node.inputs for n in _between(i, source)), node]
