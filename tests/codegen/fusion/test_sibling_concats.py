"""Concatenations whose pieces compute values in common: one kernel, each value computed once."""

from __future__ import annotations

import pytest
from loops_harness import TARGETS, check_graph, graph_of, param

from xlac.codegen.claims import kind_taken
from xlac.codegen.core.kinds.elementwise import jobs
from xlac.codegen.core.kinds.pieces import strides_before
from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Partition
from xlac.fusion.partition import is_alias, partition
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.transforms.butterflies import points
from xlac.ops.transforms.complex_parts import Number, whole
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Store
from xlac_sdk.target import Target

LANES = [target for target in TARGETS if target.vector_bytes <= 64]


def cut(target: Target, *outputs: Node) -> Partition:
    return partition(graph_of(*outputs), target, kind_taken=kind_taken)


def kernels(found: Partition) -> list[Group]:
    return [group for group in found.groups if not is_alias(group)]


def slices(x: Node, count: int) -> list[Node]:
    """Equal parts of axis 1."""
    size = x.shape[1] // count
    return [build.cut(x, 1, n * size, (n + 1) * size) for n in range(count)]


def butterfly(radix: int, columns: int = 48) -> tuple[Node, Node]:
    """Transforms of `radix` numbers each, as their real and their imaginary parts."""
    real, imaginary = (slices(param(name, (3, radix * columns)), radix) for name in "xy")
    values: list[Number] = list(zip(real, imaginary, strict=True))
    results = [whole(number) for number in points(values, inverse=False)]
    return build.concat([a for a, _ in results], 1), build.concat([b for _, b in results], 1)


@pytest.mark.parametrize("target", LANES, ids=lambda target: target.name)
@pytest.mark.parametrize("radix", [3, 4, 5, 7, 8, 10])
def test_a_butterfly_is_one_kernel_of_one_loop(radix: int, target: Target) -> None:
    found = cut(target, *butterfly(radix))
    (group,) = kernels(found)
    (job,) = jobs(group)
    assert len(job.stores) == 2 * radix
    assert len(lower(group, target, "k").launches) == 1
    check_graph(graph_of(*butterfly(radix)), [target])


def test_pieces_that_read_the_same_share_a_loop() -> None:
    """Of a butterfly of two the real parts need nothing that the imaginary parts need."""
    groups = kernels(cut(LANES[0], *butterfly(2)))
    assert [len(job.stores) for group in groups for job in jobs(group)] == [2, 2]
    check_graph(graph_of(*butterfly(2)))


def test_axes_of_one_element_do_not_matter() -> None:
    """Each number has an axis more where it is joined, as what stacks tensors gives them."""
    values: list[Number] = list(
        zip(*(slices(param(name, (3, 4 * 40)), 4) for name in "xy"), strict=True)
    )
    results = [whole(number) for number in points(values, inverse=True)]
    real, imaginary = (
        build.apply1("stack", *parts, axis=1) for parts in zip(*results, strict=True)
    )
    (group,) = kernels(cut(LANES[1], real, imaginary))
    (job,) = jobs(group)
    assert len(job.stores) == 8
    check_graph(graph_of(real, imaginary))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_pieces_of_one_shape_need_not_come_from_one_shape(axis: int) -> None:
    """Numbers and zeros, as the parts of complex numbers made from real ones."""
    x = param("x", (6, 10))
    zeros = build.full(0.0, (6, 10), DType.F32)
    flat = build.reshape(build.add(param("y", (3, 20)), 1.0), (6, 10))
    for pieces in ((x, zeros), (zeros, build.mul(x, 2.0)), (build.mul(x, 2.0), flat, x)):
        check_graph(graph_of(build.apply1("stack", *pieces, axis=axis)))
        check_graph(graph_of(build.concat(list(pieces), axis % 2)))


def test_parts_packed_beneath_reshapes_are_one_loop() -> None:
    target = LANES[0]
    real, imaginary = butterfly(4)
    stacked = build.apply1("stack", real, imaginary, axis=2)
    packed = build.reshape(build.concat([real, imaginary], 1), (3, 2, 2, 2, 48))
    for whole_of in (stacked, packed, build.reshape(stacked, (3, 8 * 48))):
        (group,) = kernels(cut(target, whole_of))
        (job,) = jobs(group)
        assert len(job.stores) == 8
        check_graph(graph_of(whole_of), [target])


def test_each_value_is_computed_once() -> None:
    x, y = param("x", (5, 64)), param("y", (5, 64))
    shared = build.apply1("exp", build.mul(x, y))
    found = build.concat([build.add(shared, x), build.sub(shared, x)], 1)
    (group,) = kernels(cut(LANES[1], found))
    (launch,) = lower(group, LANES[1], "k").launches
    text = str(launch.kernel.body)
    assert text.count("EXP") == 1 or text.count("exp") == 1


def test_pieces_without_values_in_common_have_loops_of_their_own() -> None:
    x, y = param("x", (5, 64)), param("y", (5, 64))
    found = build.concat([build.apply1("exp", x), build.apply1("log", y)], 1)
    (group,) = kernels(cut(LANES[1], found))
    assert [len(job.stores) for job in jobs(group)] == [1, 1]


def test_one_that_the_other_needs_is_a_kernel_of_its_own() -> None:
    """A sum over all of the first result comes between the two."""
    x, y = param("x", (4, 64)), param("y", (4, 64))
    shared = build.mul(x, y)
    first = build.concat([build.add(shared, x), build.sub(shared, y)], 1)
    total = build.broadcast_to(build.reduce(first, "add"), (4, 64))
    second = build.concat([build.add(shared, total), build.sub(shared, total)], 1)
    found = cut(LANES[1], first, second)
    results = set(found.graph.outputs.values())
    assert all(len(results & set(group.outputs)) <= 1 for group in found.groups)
    check_graph(graph_of(first, second))


def test_without_fusion_each_is_a_kernel() -> None:
    graph = graph_of(*butterfly(2))
    groups = partition(graph, LANES[0], fuse=False, kind_taken=kind_taken).groups
    assert all(len(group.outputs) == 1 for group in groups)


def test_a_concatenation_behind_a_reshape_is_read_from_memory() -> None:
    """Its elements would be found by division, and chosen among all pieces."""
    real, _ = butterfly(4, 9)
    flat = build.reshape(real, (3 * 36,))
    turned = build.add(build.apply1("flip", flat, axis=0), 1.0)
    assert len(kernels(cut(LANES[1], turned))) == 2
    rows = build.reshape(real, (3, 1, 36))  # here the axis of the pieces remains
    assert len(kernels(cut(LANES[1], build.apply1("exp", rows)))) == 1
    pairs = build.reshape(build.apply1("stack", *butterfly(4, 9), axis=2), (3 * 72,))
    turned_pairs = build.add(pairs, 1.0)  # and these are interleaved
    assert len(kernels(cut(LANES[1], turned_pairs))) == 1
    check_graph(graph_of(turned, build.apply1("exp", rows), turned_pairs))


@pytest.mark.parametrize(
    ("before", "after", "strides", "found"),
    [
        ((2, 3, 4), (6, 4), (4, 1), (12, 4, 1)),
        ((2, 3, 4), (6, 4), (8, 2), (24, 8, 2)),
        ((6, 4), (2, 3, 4), (24, 8, 2), (8, 2)),
        ((2, 12), (2, 3, 4), (100, 8, 2), (100, 2)),
        ((2, 12), (2, 3, 4), (100, 9, 2), None),
        ((2, 1, 3), (2, 3, 1), (6, 2, 1), (6, 0, 2)),
        ((4, 3), (3, 4), (4, 1), (3, 1)),
        ((4, 3), (3, 4), (9, 2), None),
        ((1, 1), (1,), (1,), (1, 1)),
        ((), (1, 1), (7, 7), ()),
    ],
)
def test_strides_before_a_reshape(
    before: Shape, after: Shape, strides: Shape, found: Shape | None
) -> None:
    assert strides_before(before, after, strides) == found


def test_stores_of_a_loop_are_in_the_order_of_memory() -> None:
    (group,) = kernels(cut(LANES[0], build.apply1("stack", *butterfly(4), axis=2)))
    (launch,) = lower(group, LANES[0], "k").launches
    stores = [stmt for stmt in _statements(launch.kernel.body) if isinstance(stmt, Store)]
    assert len(stores) == 8
    offsets = [str(one.index) for one in stores]
    assert len(set(offsets)) == 8


def _statements(body: tuple[object, ...]) -> list[object]:
    found: list[object] = []
    for stmt in body:
        found.append(stmt)
        found += _statements(getattr(stmt, "body", ()))
    return found
