"""What a reduction's cluster computes on the way: computed again where that moves less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from loops_harness import MASKED, graph_of, param

import xlac
from xlac.codegen.claims import kind_taken
from xlac.fusion.group import Group, Kind
from xlac.fusion.partition import partition
from xlac.ir.graph import Node
from xlac.model import Model
from xlac.ops import build

SHAPE, AXES = (2, 9, 10, 64), (0, 1, 2)


def gap(x: Node) -> Node:
    return build.sub(x, build.div(build.reduce(x, "add", AXES, True), 180.0))


def sums(*values: Node) -> list[Node]:
    return [build.reduce(value, "add", AXES) for value in values]


def normalized(dear: bool = False) -> list[Node]:
    """Forwards, and a backward pass of two sums that needs the distance and the mask again."""
    x, w = param("x", SHAPE), param("w", (64, 64))
    distance = gap(build.apply("tanh", x) if dear else x)
    (variance,) = sums(build.mul(distance, distance))
    y = build.maximum(build.mul(distance, build.broadcast_to(variance, SHAPE)), 0.0)
    product = build.apply("dot", y, w, contract_lhs=(3,), contract_rhs=(0,))
    ct = build.select(build.compare(y, "gt", 0.0), product, 0.0)
    total, along = sums(ct, build.mul(ct, distance))
    back = build.sub(
        ct,
        build.add(
            build.mul(distance, build.broadcast_to(along, SHAPE)), build.broadcast_to(total, SHAPE)
        ),
    )
    return [back]


def groups(outputs: list[Node]) -> tuple[Group, ...]:
    target = MASKED.with_facts(l2_bytes=1 << 16)  # the product is larger than half of it
    return partition(graph_of(*outputs), target, kind_taken=kind_taken).groups


def large(group: Group) -> list[str]:
    """The operations of the full-size values that a group writes."""
    return [n.op.mnemonic for n in group.outputs if n.shape == SHAPE]


def test_a_distance_from_a_mean_is_not_kept_for_the_way_back() -> None:
    forward, product, backward = groups(normalized())
    assert (forward.kind, product.kind, backward.kind) == (Kind.REDUCE, Kind.DOT, Kind.REDUCE)
    assert "sub" not in large(forward) and "max" in large(forward)
    assert "sub" in large(backward)


def test_both_sums_of_the_way_back_share_a_kernel() -> None:
    """Though the product's epilogue had taken their operands in before it was shortened."""
    *_, backward = groups(normalized())
    assert sum(n.op.mnemonic == "reduce" for n in backward.nodes) == 2


def test_what_is_dear_is_kept() -> None:
    first, *_ = groups(normalized(dear=True))
    assert "sub" in large(first) or "tanh" in large(first)


@pytest.mark.parametrize("room", [0, 64, 1 << 20])
def test_a_mask_is_taken_from_what_is_kept_where_memory_is_scarce(room: int) -> None:
    """The relu after a product is read by another product, and its mask by the way back of that."""
    x, w, v = param("x", (32, 64)), param("w", (64, 128)), param("v", (128, 10))
    y = build.maximum(build.apply("dot", x, w, contract_lhs=(1,), contract_rhs=(0,)), 0.0)
    z = build.apply("dot", y, v, contract_lhs=(1,), contract_rhs=(0,))
    ct = build.apply("dot", build.apply("tanh", z), v, contract_lhs=(1,), contract_rhs=(1,))
    back = build.select(build.compare(y, "gt", 0.0), ct, 0.0)
    target = replace(MASKED, temporary_bytes=room)
    first, _, last = partition(graph_of(back), target, kind_taken=kind_taken).groups
    masks = [n for n in first.outputs if n.op.mnemonic == "compare"]
    assert len(masks) == (room != 64)
    assert [n.op.mnemonic for n in last.nodes].count("compare") == (room == 64)


@pytest.mark.parametrize("dear", [False, True])
def test_it_is_right(dear: bool) -> None:
    model = Model(graph_of(*normalized(dear)), {})
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=SHAPE), "w": rng.normal(size=(64, 64))}
    inputs = {name: array.astype(np.float32) for name, array in given.items()}
    got, want = (np.asarray(xlac.compile(model, target=t)(**inputs)) for t in ("cpu", "reference"))
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-3 * np.abs(want).max())
