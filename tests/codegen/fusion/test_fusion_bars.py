"""What fusion promises: how many kernels, what they move, and which temporaries there are."""

from __future__ import annotations

import pytest
from loops_harness import MASKED, TARGETS, check_graph, constant, graph_of, param, well_formed
from work import calls

from xlac.codegen.claims import kind_taken
from xlac.codegen.lower import lower
from xlac.fusion.cost import work
from xlac.fusion.group import Kind, Partition
from xlac.fusion.partition import is_alias, partition
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.scalar.arithmetic import Add, Max, Mul
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.view import Broadcast, Transpose

apply = build.apply


def cut(*outputs: Node) -> Partition:
    graph = graph_of(*outputs)
    check_graph(graph)
    return partition(graph, MASKED, kind_taken=kind_taken)


def test_decomposed_softmax_is_one_kernel() -> None:
    x = param("x", (6, 200))
    shape, kept = x.shape, (0,)
    top = build.reduce(x, "max", -1)
    power = Node.of(Exp(), build.sub(x, Node.of(Broadcast(shape, kept), top)))
    total = build.reduce(power, "add", -1)
    (group,) = cut(build.div(power, Node.of(Broadcast(shape, kept), total))).groups
    assert group.kind is Kind.ROWS
    assert len(lower(group, MASKED, "k").launches) == 1
    assert work(group).bytes == 2 * 6 * 200 * 4


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_row_composites_are_one_kernel(name: str) -> None:
    (group,) = cut(apply(name, param("x", (5, 33)), axis=-1)).groups
    assert group.kind is Kind.ROWS


def test_layer_norm_and_gelu_are_one_kernel() -> None:
    x, scale, shift = param("x", (7, 96)), param("scale", (96,)), param("shift", (96,))
    (group,) = cut(apply("gelu", apply("layer_norm", x, scale, shift))).groups
    assert group.kind is Kind.ROWS
    (launch,) = lower(group, MASKED, "k").launches
    assert len(launch.kernel.parameters) == 4


def test_sum_of_a_product_reads_each_operand_once() -> None:
    x, y, z = (param(n, (50, 70)) for n in "xyz")
    (group,) = cut(build.reduce(build.add(x, build.mul(y, z)), "add")).groups
    assert work(group).bytes == 3 * 3500 * 4 + 4
    assert work(group).flops == 3 * 3500


def test_softmax_of_a_layer_materialises_only_the_logits() -> None:
    x, w, b = param("x", (6, 64)), param("w", (64, 40)), param("b", (40,))
    logits = apply("relu", build.add(apply("matmul", x, w), b))
    groups = partition(
        graph_of(apply("softmax", logits, axis=-1)), MASKED, kind_taken=kind_taken
    ).groups
    assert [g.kind for g in groups] == [Kind.DOT, Kind.ROWS]
    assert [o.shape for o in groups[0].outputs] == [(6, 40)]
    assert groups[0].barriers[groups[0].outputs[0]] == "a reduction needs whole rows of the dot"


def test_a_long_chain_is_one_kernel() -> None:
    y = param("x", (6, 64))
    for _ in range(75):
        y = build.add(build.mul(y, 0.99), 0.3)
    assert len(cut(y).groups) == 1


def test_reductions_of_one_operand_share_a_kernel() -> None:
    x = param("x", (9, 40))
    mean, square = build.reduce(x, "add", 1), build.reduce(build.mul(x, x), "add", 1)
    (group,) = cut(mean, square, build.reduce(x, "max", 1)).groups
    assert len(group.outputs) == 3


def test_statistics_over_a_batch_and_their_use_are_one_kernel() -> None:
    x = param("x", (4, 6, 5, 5))
    axes, shape = (0, 2, 3), x.shape
    mean = build.div(build.reduce(x, "add", axes), 100.0)
    centred = build.sub(x, Node.of(Broadcast(shape, (1,)), mean))
    variance = build.div(build.reduce(build.mul(centred, centred), "add", axes), 100.0)
    scale = build.div(1.0, build.sqrt(build.add(variance, 1e-5)))
    (group,) = cut(build.mul(centred, Node.of(Broadcast(shape, (1,)), scale))).groups
    assert group.kind is Kind.REDUCE


def test_a_shared_sum_is_written_by_the_kernel_that_has_it() -> None:
    """The residual of a transformer: its norm computes it, and what reads it later finds it in
    memory.
    """
    x, y, w = param("x", (8, 64)), param("y", (8, 64)), param("w", (64, 64))
    residual = build.add(x, y)
    normal = apply("softmax", residual, axis=-1)
    groups = partition(
        graph_of(build.add(apply("matmul", normal, w), residual)), MASKED, kind_taken=kind_taken
    ).groups
    assert [g.kind for g in groups] == [Kind.ROWS, Kind.DOT]
    assert residual.type in [o.type for o in groups[0].outputs]
    assert len(groups[0].outputs) == 2


def test_a_transcendental_that_many_elements_read_is_computed_once() -> None:
    small = Node.of(Exp(), param("x", (4096,)))
    (first, second) = cut(
        build.add(Node.of(Broadcast((64, 4096), (1,)), small), param("y", (64, 4096)))
    ).groups
    assert [o.shape for o in first.outputs] == [(4096,)]
    assert "many times" in second.barriers[first.outputs[0]]


def test_a_computed_scalar_is_never_stored_as_a_tensor() -> None:
    """Optimizers divide tensors of equal shape by roots and powers of the number of the step: it is
    the number that is computed once, not a tensor full of it.
    """
    step, shape, count = param("step", ()), (3000, 700), 12
    root = build.sqrt(
        build.sub(1.0, build.apply1("pow", build.constant(0.9, step.type.dtype), step))
    )
    root = Node.of(Broadcast(shape, ()), root)
    sizes = [build.div(build.sqrt(param(f"v{n}", shape)), root) for n in range(count)]
    graph = graph_of(*(build.sub(param(f"w{n}", shape), size) for n, size in enumerate(sizes)))
    parts = partition(graph, MASKED, kind_taken=kind_taken)
    moved = sum(work(group).bytes for group in parts.groups)
    stored = [o.op.mnemonic for group in parts.groups for o in group.outputs]
    assert moved < 1.01 * 3 * count * 3000 * 700 * 4 and "broadcast" not in stored


def test_a_reshape_costs_nothing() -> None:
    (group,) = partition(
        graph_of(build.reshape(param("x", (6, 4)), (24,))), MASKED, kind_taken=kind_taken
    ).groups
    assert is_alias(group)
    assert group.reason.startswith("a reshape")


def test_small_siblings_share_a_kernel() -> None:
    xs = [param(f"x{i}", (3 + i,)) for i in range(4)]
    (group,) = cut(*(Node.of(Exp(), x) for x in xs)).groups
    assert group.kind is Kind.ELEMENTWISE


def test_siblings_that_share_an_operand_share_a_kernel() -> None:
    x, y, z = (param(n, (100, 100)) for n in "xyz")
    (group,) = cut(build.add(x, y), build.mul(x, z)).groups
    assert len(group.outputs) == 2


def test_no_two_groups_need_each_other() -> None:
    """A value that leaves a row's kernel and comes back transposed may not be in it."""
    x = param("x", (16, 16))
    top = build.reduce(x, "max", 1)
    shifted = build.sub(x, Node.of(Broadcast((16, 16), (0,)), top))
    across = Node.of(Transpose((1, 0)), shifted)
    total = build.reduce(build.add(shifted, across), "add", 1)
    parts = cut(build.mul(shifted, Node.of(Broadcast((16, 16), (0,)), total)))
    well_formed(parts)
    assert len(parts.groups) >= 2


def test_without_fusion_every_node_has_a_kernel() -> None:
    x = param("x", (4, 5))
    graph = graph_of(build.add(build.mul(x, x), 1.0))
    check_graph(graph, fuse=False)
    assert len(partition(graph, MASKED, fuse=False, kind_taken=kind_taken).groups) == len(
        [n for n in graph.nodes() if n.inputs]
    )


def _random_chain(count: int) -> Graph:
    import random

    chosen = random.Random(0)
    pool = [param("x", (64,))]
    for _ in range(count):
        op = chosen.choice([Add, Mul, Max])()
        pool.append(Node.of(op, pool[-1], chosen.choice(pool[-50:])))
    return graph_of(pool[-1])


def test_work_grows_linearly() -> None:
    small, large = _random_chain(1_000), _random_chain(4_000)
    assert calls(lambda: partition(large, MASKED, kind_taken=kind_taken)) < 1.2 * 4 * calls(
        lambda: partition(small, MASKED, kind_taken=kind_taken)
    )


def test_a_deep_chain_needs_no_deep_stack() -> None:
    y = param("x", (64,))
    one = constant(1.0)
    for _ in range(3_000):
        y = Node.of(Add(), y, Node.of(Broadcast((64,), ()), one))
    parts = partition(graph_of(y), MASKED, kind_taken=kind_taken)
    assert len(parts.groups) <= 20
    for group in parts.groups[:2]:
        assert lower(group, MASKED, "k").launches


def test_targets_without_vectors_fuse_alike() -> None:
    x = param("x", (6, 40))
    assert all(
        len(partition(graph_of(apply("softmax", x, axis=-1)), t, kind_taken=kind_taken).groups) == 1
        for t in TARGETS
    )


def test_slices_of_slices_do_not_double_the_code_with_every_step() -> None:
    """Each step reads the last at even and odd places, as prefix sums by halves do."""

    def nodes(steps: int) -> tuple[int, Partition]:
        x: Node = param("x", (2**steps, 4))
        for _ in range(steps):
            even, odd = (
                build.cut(build.reshape(x, (x.shape[0] // 2, 2, 4)), 1, n, n + 1) for n in (0, 1)
            )
            x = build.apply1("exp", build.reshape(build.add(even, odd), (x.shape[0] // 2, 4)))
        return sum(
            len(g.nodes) for g in partition(graph_of(x), MASKED, kind_taken=kind_taken).groups
        ), partition(graph_of(x), MASKED, kind_taken=kind_taken)

    count, found = nodes(10)
    assert len(found.groups) > 1 and count < 200


def test_a_long_concatenation_is_written_by_pieces() -> None:
    pieces = [param(f"x{n}", (1, 4)) for n in range(40)]
    groups = partition(
        graph_of(build.reduce(build.concat(pieces, 0), "add", 0)), MASKED, kind_taken=kind_taken
    ).groups
    assert [g.anchor.op.mnemonic for g in groups] == ["concat", "reduce"]
