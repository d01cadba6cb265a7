"""Groups that differ only in scalar constants share kernels, which read those from memory: as many
kernels as one layer has, and the same results to the bit. Numbers that decide code stay immediate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from contraction_harness import TARGETS, group
from schedule_draws import x

from xlac.codegen import kernel_dedup
from xlac.codegen.core.lowered_group import KernelLaunch, PackedConstant
from xlac.codegen.kernel_dedup import LoweringCache
from xlac.codegen.scalar_sharing import skeleton
from xlac.driver import Lowered, executable, lower
from xlac.fusion.group import Group, Kind, Partition
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.kernel import Kernel, Let, Load, Stmt, children
from xlac_sdk.target import Request, Target

ROWS, SIZE = 6, 24
Layer = tuple[float, float, int]
LAYERS: tuple[Layer, ...] = ((0.031, 7.0, 3), (0.057, -11.0, -5), (0.022, 128.0, 7), (0.09, 5.0, 5))
"""Of each layer a scale, a zero point that is added to floats and one of integers, which is equal
to another number in some.
"""
AVX = TARGETS["avx512"]
DEVICES = {"opencl": "generic-gpu", "cuda": "sm_90a"}


def layered(layers: Sequence[Layer]) -> Model:
    """Layers that differ in numbers only: a product with an epilogue, its rounded result
    dequantized, and a norm.
    """
    h = given = x("x", ROWS, SIZE)
    weights: dict[str, Array] = {}
    draw = np.random.default_rng(5)
    for number, (scale, zero, start) in enumerate(layers):
        name = f"w{number}"
        weights[name] = draw.normal(size=(SIZE, SIZE)).astype(np.float32)
        product = build.dot(h, x(name, SIZE, SIZE, kind="weight"), ((1,), (0,)))
        levels = build.add(build.apply1("round", build.div(product, scale)), zero)
        small = build.cast(build.minimum(build.maximum(levels, -300.0), 300.0), DType.I16)
        h = build.mul(build.cast(build.add(small, start), DType.F32), scale)
        mean = build.mul(build.reduce(h, "add", 1), 1 / SIZE)
        h = build.sub(h, build.apply1("broadcast", mean, shape=(ROWS, SIZE), axes=(0,)))
        h = build.mul(h, zero / 300)
    return Model(Graph("layers", (given,), {"y": h}), weights)


def separately(model: Model, target: Target, patch: pytest.MonkeyPatch) -> Lowered:
    """Without sharing of this kind."""
    with patch.context() as inner:
        inner.setattr(kernel_dedup, "skeleton", lambda group, target: None)
        return lower(model, target)


def kernels_of(lowered: Lowered) -> set[Kernel]:
    """The kernels of all groups, before some are changed to write where they read."""
    every = map(lowered.schedules, lowered.partition.groups)
    return {launch.kernel for one in every for launch in one.launches}


@pytest.mark.parametrize("name", ["cpu", "c", "reference", "opencl", "cuda"])
def test_layers_have_the_kernels_of_one(name: str) -> None:
    """The first reads an input, which is aligned otherwise, so it has a product of its own."""
    target = find(name).target_for(Request(arch=DEVICES.get(name, "")))
    two, many = (lower(layered(layers), target) for layers in (LAYERS[:2], LAYERS))
    assert len(kernels_of(many)) == len(kernels_of(two))


@pytest.mark.parametrize("name", ["cpu", "c", "reference"])
def test_results_are_those_of_separate_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend, model = find(name), layered(LAYERS)
    target = backend.target_for(Request(threads=1))
    both = lower(model, target), separately(model, target, monkeypatch)
    assert len(kernels_of(both[0])) < len(kernels_of(both[1]))
    given = np.random.default_rng(7).normal(size=(ROWS, SIZE)).astype(np.float32)
    one, other = (np.asarray(executable(each, backend)(x=given)) for each in both)
    assert len(np.unique(one)) > ROWS
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize("name", DEVICES)
def test_results_on_a_device_are_those_of_separate_kernels(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, target = layered(LAYERS), find(name).target_for(Request(arch=DEVICES[name]))
    both = lower(model, target), separately(model, target, monkeypatch)
    assert len(kernels_of(both[0])) < len(kernels_of(both[1]))
    given = np.random.default_rng(7).normal(size=(ROWS, SIZE)).astype(np.float32)
    results = [np.zeros((ROWS, SIZE), np.float32) for _ in both]
    for each, result in zip(both, results, strict=True):
        Interpreter(each.program).run({"x": given}, {"y": result})
    assert len(np.unique(results[0])) > ROWS
    np.testing.assert_array_equal(*(result.view(np.uint32) for result in results))


def test_schedules_are_those_of_separate_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    model = layered(LAYERS)
    shared, separate = lower(model, AVX), separately(model, AVX, monkeypatch)
    one, other = shared.schedules.table(), separate.schedules.table()
    assert one and {name: parts for name, (_, parts) in one.items()} == {
        name: parts for name, (_, parts) in other.items()
    }


def test_numbers_are_read_before_all_loops() -> None:
    """At the beginning of the kernel, and the only parallel loop is around it."""
    lowered = lower(layered(LAYERS), AVX)
    cache, seen = lowered.schedules, 0
    for each in lowered.partition.groups:
        for launch in cache(each).launches:
            arrays = {buffer for buffer, _ in numbers_of(launch)}
            body = launch.kernel.body
            inner = launch.kernel.parallel.body if launch.kernel.parallel else body
            first = [s for s in inner if reads(s, arrays)]
            assert list(inner[: len(first)]) == first
            assert sum(reads(s, arrays) for s in every(body)) == len(first)
            seen += len(first)
    assert seen


def numbers_of(launch: KernelLaunch) -> list[tuple[object, PackedConstant]]:
    """The parameters of a launch that are arrays of numbers."""
    pairs = zip(launch.kernel.parameters, launch.arguments, strict=True)
    return [(b, v) for b, v in pairs if isinstance(v, PackedConstant) and not v.sources]


def reads(stmt: Stmt, arrays: set[object]) -> bool:
    return isinstance(stmt, Let) and isinstance(stmt.value, Load) and stmt.value.buffer in arrays


def every(body: Sequence[Stmt]) -> Iterator[Stmt]:
    for stmt in body:
        yield stmt
        for inner in children(stmt):
            yield from every(inner)


def pointwise(write: Callable[[Node], Node], dtype: DType = DType.F32) -> Group:
    return group(Kind.ELEMENTWISE, write(x("x", 40, dtype=dtype)))


def kernels(*groups: Group, target: Target = AVX) -> int:
    """How many kernels some groups have together."""
    graph = Graph("g", (), {f"y{k}": g.outputs[0] for k, g in enumerate(groups)})
    lowered = LoweringCache(target).lowered(Partition(graph, groups))
    return len({launch.kernel for one in lowered.values() for launch in one.launches})


F, I = DType.F32, DType.I32


@pytest.mark.parametrize(
    ("mnemonic", "dtype", "one", "other", "shared"),
    [
        ("add", F, 128.0, 3.5, True),
        ("sub", F, 1e-5, 1e-6, True),
        ("mul", F, 0.1, 0.3, True),
        ("div", F, 0.1, 0.3, True),
        ("add", I, -122, 64, True),
        ("mul", I, 3, 7, True),
        ("add", DType.F16, 0.3, 0.7, True),
        ("add", F, 0.0, 3.5, False),  # nothing is added, but for a zero's sign
        ("add", F, np.inf, 3.5, False),
        ("add", F, np.nan, 3.5, False),
        ("add", I, 1, 5, False),
        ("mul", F, 1.0, 0.3, False),
        ("mul", F, -1.0, 0.3, False),
        ("mul", F, 2.0, 0.3, False),  # an addition
        ("div", F, 8.0, 0.3, False),  # a product with its reciprocal
        ("mul", I, 8, 7, False),  # a shift
        ("div", I, 3, 7, False),  # a product and shifts
        ("rem", I, 3, 7, False),
        ("max", F, 0.5, 0.3, False),  # a bound of a clip
        ("min", F, 5.0, 6.0, False),
        ("pow", F, 2.5, 3.5, False),
        ("shr", I, 3, 5, False),
        ("compare", F, 0.5, 0.3, False),
    ],
)
def test_numbers_that_decide_code_are_not_shared(
    mnemonic: str, dtype: DType, one: float, other: float, shared: bool
) -> None:
    def written(number: float) -> Group:
        def write(value: Node) -> Node:
            constant = build.constant(number, dtype)
            if mnemonic == "compare":
                return build.compare(value, "lt", constant)
            return build.apply1(mnemonic, value, constant)

        return pointwise(write, dtype)

    assert kernels(written(one), written(other)) == (1 if shared else 2)


def test_numbers_may_be_equal_in_some_groups() -> None:
    """A graph has one node for equal numbers, wherever they are read, and a group those that it
    reads; the order in which others of the graph read them is no difference either.
    """

    def write(value: Node, *numbers: float) -> Node:
        known = {n: build.broadcast_to(build.constant(n, F), (40,)) for n in numbers}
        first, second, third = (known[n] for n in numbers)
        return build.div(build.mul(build.add(value, first), second), third)

    groups = [
        pointwise(lambda value, n=n: write(value, *n))  # type: ignore[misc]
        for n in [(0.3, 0.7, 0.9), (0.3, 0.3, 0.9), (0.6, 0.6, 0.6), (0.3, 0.7, 0.7)]
    ]
    assert kernels(*groups) == 1
    turned = replace(
        groups[1], nodes=(*groups[1].nodes[1:3], groups[1].nodes[0], *groups[1].nodes[3:])
    )
    assert skeleton(turned, AVX) == skeleton(groups[1], AVX)


def test_numbers_that_are_equal_in_all_groups_are_immediate() -> None:
    def write(value: Node, number: float) -> Node:
        return build.mul(build.add(value, 0.25), number)

    groups = [pointwise(lambda value, n=n: write(value, n)) for n in (0.3, 0.7, 0.9)]  # type: ignore[misc]
    graph = Graph("g", (), {f"y{k}": g.outputs[0] for k, g in enumerate(groups)})
    lowered = LoweringCache(AVX).lowered(Partition(graph, tuple(groups)))
    values = []
    for one in lowered.values():
        (launch,) = one.launches
        ((_, array),) = numbers_of(launch)
        values.append(array.make().tolist())
    assert values == [[np.float32(n)] for n in (0.3, 0.7, 0.9)]


def test_what_is_computed_from_weights_while_compiling_is_not_shared() -> None:
    """A weight times a number is packed once; the number of another group must not be packed."""

    def product(number: float) -> Group:
        w = x("w", SIZE, SIZE, kind="weight")
        dot = build.dot(x("x", ROWS, SIZE), build.mul(w, number), ((1,), (0,)))
        return group(Kind.DOT, dot)

    assert skeleton(product(0.3), AVX) != skeleton(product(0.7), AVX)
    assert kernels(product(0.3), product(0.7)) == 2


def test_constants_that_kernels_read_from_memory_are_operands() -> None:
    """A product by a matrix of equal numbers packs it; one that another group stores is a value."""

    def product(number: float, stored: bool) -> Group:
        w = build.broadcast_to(build.constant(2.0, F), (SIZE, SIZE))
        dot = build.dot(x("x", ROWS, SIZE), w, ((1,), (0,)))
        whole = group(Kind.DOT, dot, build.mul(dot, number))
        if not stored:
            return whole
        nodes = tuple(node for node in whole.nodes if node is not w)
        return replace(whole, nodes=nodes, inputs=(*whole.inputs, w))

    for stored in (False, True):
        groups = product(0.3, stored), product(0.7, stored)
        graph = Graph("g", (), {f"y{k}": g.outputs[0] for k, g in enumerate(groups)})
        one, other = LoweringCache(AVX).lowered(Partition(graph, groups)).values()
        assert [launch.kernel for launch in one.launches] == [l.kernel for l in other.launches]
        nodes = {v for launch in other.launches for v in launch.arguments if isinstance(v, Node)}
        assert nodes <= {*groups[1].inputs, *groups[1].nodes}
