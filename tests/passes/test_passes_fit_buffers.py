"""Operations with more operands than a launch has buffers: divided, and equal to the bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from xlac.driver import lower
from xlac.ir.graph import Graph, Node, pick, walk
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.extend import Concat
from xlac.ops.tensor.leaf import Param
from xlac.passes.limits.fit_buffers import FitBuffersPass, buffers
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.target import Request, Target

CPU = Target("small", vector_bytes=32)
GPU = Target("any", warp=32, block_threads=256, shared_bytes=1 << 15)
I32 = DType.I32


def param(name: str, shape: Sequence[int], dtype: DType = DType.F32) -> Node:
    return Node.of(Param(name, Type(dtype, tuple(shape))))


def graph_of(*outputs: Node) -> Graph:
    params = [n for n in walk(outputs) if isinstance(n.op, Param)]
    return Graph("g", tuple(params), {f"o{i}": o for i, o in enumerate(outputs)})


def values(graph: Graph) -> dict[str, Any]:
    """A value of each parameter; integers are few, so that sorts have equal keys."""
    rng = np.random.default_rng(0)
    return {
        p.op.name: (  # type: ignore[attr-defined]
            rng.standard_normal(p.shape) if p.type.dtype.is_float else rng.integers(0, 3, p.shape)
        ).astype(p.type.dtype.numpy)
        for p in graph.inputs
    }


def check(graph: Graph, target: Target, most: int) -> int:
    """The kernels of a program, none with more buffers, that computes what the graph means."""
    made = lower(Model(graph, {}), replace(target, most_buffers=most)).program
    assert max(len(kernel.parameters) for kernel in made.kernels) <= most
    given = values(graph)
    outputs = {s.name: np.empty(s.extents({}), s.dtype.numpy) for s in made.outputs}
    Interpreter(made).run(given, outputs)
    wanted = interpret(graph, given)
    for name, array in outputs.items():
        np.testing.assert_array_equal(array, wanted[name])
    return len(made.kernels)


def joined(count: int, axis: int, change: Callable[[Node], Node] = lambda x: x) -> Graph:
    """So many parameters of several lengths, concatenated."""
    parts = []
    for n in range(count):
        shape = [2, 2]
        shape[axis] = 1 + n % 3
        parts.append(change(param(f"p{n}", shape)))
    return graph_of(Node.of(Concat(axis), *parts))


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("most", [3, 4, 8])
@pytest.mark.sampled(6)
def test_concatenations_around_the_limit(target: Target, most: int) -> None:
    for count in (most - 1, most, most + 1, 2 * most, most * most):
        for axis in (0, 1):
            kernels = check(joined(count, axis), target, most)
            assert (kernels > 1) == (count >= most)
    check(joined(2 * most, 0, build.exp), target, most)
    again = [param(f"p{n}", (2, 3)) for n in range(most)]
    check(graph_of(Node.of(Concat(0), *again, *again, *again)), target, most)


def test_the_smallest_parts_are_written_twice() -> None:
    large = [param(f"x{n}", (90, 4)) for n in range(3)]
    small = [param(f"y{n}", (1, 4)) for n in range(3)]
    graph = graph_of(Node.of(Concat(0), *large, *small))
    context = PassContext(replace(CPU, most_buffers=6))
    (whole,) = FitBuffersPass().run(graph, Trace(), context).outputs.values()
    assert whole.inputs[:3] == tuple(large)
    assert [len(x.inputs) for x in whole.inputs[3:]] == [2, 0]
    assert buffers(whole.inputs) == 5
    assert FitBuffersPass().run(graph, Trace(), PassContext(CPU)) is graph


def starts(rank: int) -> list[Node]:
    return [param(f"i{n}", (), I32) for n in range(rank)]


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("most", [4, 5])
@pytest.mark.sampled(4)
def test_starts_of_many_axes(target: Target, most: int) -> None:
    x = param("x", (2, 3, 4, 3, 2))
    check(graph_of(Node.of(DynSlice((1, 2, 2, 1, 2)), x, *starts(5))), target, most)
    update = param("update", (1, 2, 2, 1, 2))
    check(graph_of(Node.of(DynUpdate(), x, update, *starts(5))), target, most)


def sorted_by(keys: int, others: Sequence[DType], **more: Any) -> Graph:
    xs = [param(f"k{n}", (3, 7), I32) for n in range(keys)]
    xs += [param(f"x{n}", (3, 7), dtype) for n, dtype in enumerate(others)]
    sort = Node.of(Sort(1, keys=keys, **more), *xs)
    return graph_of(*(pick(sort, n) for n in range(len(xs))))


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("keys", [1, 2, 3])
@pytest.mark.parametrize("more", [{}, {"descending": True}, {"kept": 4}], ids=str)
@pytest.mark.sampled(6)
def test_sorts_of_many_tensors(target: Target, keys: int, more: dict[str, Any]) -> None:
    check(sorted_by(keys, (DType.F32, I32, DType.U8), **more), target, 5)


def test_sorts_by_a_body_that_compares_few() -> None:
    names = [f"{name}{side}" for name in "abcd" for side in (0, 1)]
    pairs = [param(name, (), I32) for name in names]
    body = Graph("before", tuple(pairs), {"yes": build.compare(pairs[3], "lt", pairs[2])})
    xs = [param(name, (2, 6), I32) for name in "abcd"]
    sort = Node.of(Sort(1, body=body), *xs)
    check(graph_of(*(pick(sort, n) for n in range(4))), CPU, 5)


def lexicographic(dtypes: Sequence[DType]) -> Graph:
    """Whether the first of two goes before the second: by the sum of the first two numbers of each,
    which no keys say, then by the others in turn.
    """
    pairs = [param(f"x{n}{side}", (), dtype) for n, dtype in enumerate(dtypes) for side in (0, 1)]
    sides = [list(pairs[side::2]) for side in (0, 1)]
    keys = [(build.add(*side[:2]), *side[2:]) for side in sides]
    before = build.compare(keys[0][-1], "lt", keys[1][-1])
    for a, b in reversed(list(zip(*keys, strict=True))[:-1]):
        before = build.select(build.compare(a, "eq", b), before, build.compare(a, "gt", b))
    return Graph("before", tuple(pairs), {"yes": before})


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("shape", [(2, 1), (2, 0), (3, 7), (1, 64), (2, 100)], ids=str)
@pytest.mark.parametrize("kept", [None, 1])
@pytest.mark.sampled(12)
def test_sorts_by_a_body_that_compares_many(
    target: Target, shape: tuple[int, int], kept: int | None
) -> None:
    dtypes = (I32, I32, DType.U8, I32, DType.I16)
    if kept is not None and kept > shape[1]:
        pytest.skip("there are not as many elements")
    xs = [param(f"x{n}", shape, dtype) for n, dtype in enumerate(dtypes)]
    xs.append(param("moved", shape))
    read, moved = lexicographic(dtypes), [param(f"moved{side}", ()) for side in (0, 1)]
    body = Graph("before", (*read.inputs, *moved), read.outputs)
    sort = Node.of(Sort(1, body=body, kept=kept), *xs)
    check(graph_of(*(pick(sort, n) for n in range(len(xs)))), target, 5)


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
def test_reductions_of_many_tensors_read_one(target: Target) -> None:
    count = 5
    pairs = [param(f"{name}{n}", (), I32) for name in "ab" for n in range(count)]
    sums = {f"s{n}": build.add(pairs[n], pairs[count + n]) for n in range(count)}
    xs = [param(f"x{n}", (4, 6), I32) for n in range(count)]
    found = Node.of(Reduce((1,), "body", Graph("sums", tuple(pairs), sums)), *xs, *starts(count))
    check(graph_of(*(pick(found, n) for n in range(count))), target, 7)


@pytest.mark.long
@pytest.mark.parametrize("name", ["c", "cpu"])
def test_many_parts_take_no_longer_than_their_number(name: str) -> None:
    check(joined(400, 0), find(name).target(Request()), 8)
