"""Runs partitions kernel by kernel in the SDK's interpreter and compares every value with the ops'
own meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.codegen.claims import kind_taken
from xlac.codegen.core.lowered_group import LoweredGroup, Scratch
from xlac.codegen.lower import lower
from xlac.fusion.group import Group, Kind, Partition
from xlac.fusion.partition import is_alias, partition
from xlac.fusion.placement import Placements
from xlac.ir.composite import Composite
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import compile_kernel
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.target import Target

Array = NDArray[Any]

SCALAR = Target("scalar")
MASKED = Target("masked", vector_bytes=64, vector_registers=32, masked=True, fma=True, threads=2)
PLAIN = Target("plain", vector_bytes=32)
WIDE = Target("wide", vector_bytes=4096, masked=True)
TARGETS = (SCALAR, MASKED, PLAIN, WIDE)


def param(name: str, shape: Sequence[int], dtype: DType = DType.F32) -> Node:
    return Node.of(Param(name, Type(dtype, tuple(shape)), "input"))


def constant(value: Any, dtype: DType = DType.F32) -> Node:
    return Node.of(Const(np.asarray(value, dtype.numpy)))


def graph_of(*outputs: Node) -> Graph:
    """A graph of these results, composites expanded down to primitives."""
    params = [n for n in walk(outputs) if isinstance(n.op, Param)]
    graph = Graph("g", tuple(params), {f"o{i}": o for i, o in enumerate(outputs)})
    while any(isinstance(n.op, Composite) for n in graph.nodes()):
        graph = graph.rewrite(
            lambda n: n.op.expand(*n.inputs) if isinstance(n.op, Composite) else n
        )
    return graph


def group_of(kind: Kind, *outputs: Node) -> Group:
    """Everything that some nodes need as one group."""
    nodes = list(walk(outputs))
    inside = tuple(n for n in nodes if not isinstance(n.op, Param | Const))
    return Group(kind, inside[-1], inside, tuple(n for n in nodes if n not in inside), outputs)


def draw(type_: Type, rng: np.random.Generator) -> Array:
    shape, dtype = type_.shape, type_.dtype
    if dtype.is_float:
        return rng.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return rng.random(shape) < 0.5
    return rng.integers(-50 if dtype.is_signed else 0, 50, shape).astype(dtype.numpy)


def evaluate(outputs: Sequence[Node], feeds: Mapping[Node, Array]) -> dict[Node, Any]:
    """Every node's value, by the ops' own NumPy meaning."""
    values: dict[Node, Any] = dict(feeds)
    for node in walk(outputs):
        if node in values:
            continue
        arguments: list[Array] = []
        for i in node.inputs:
            arguments += values[i] if isinstance(values[i], tuple) else (values[i],)
        found = node.op.evaluate(*arguments)
        values[node] = found if isinstance(found, tuple) else np.asarray(found)
    return values


@cache
def _function(kernel: Kernel) -> Callable[..., None]:
    verify(kernel)
    return compile_kernel(kernel)


def run_scheduled(
    scheduled: LoweredGroup, outputs: Sequence[Node], values: Mapping[Node, Array]
) -> dict[Node, Array]:
    """Runs the launches of one group on values of its inputs; memory is poisoned before."""
    memory: dict[Any, Array] = {
        o: np.full(o.shape, 99, o.type.dtype.numpy).reshape(-1) for o in outputs
    }
    for copying in scheduled.copies:
        memory[copying.target] = np.array(values[copying.source]).reshape(-1)
    for launching in scheduled.launches:
        given = []
        for parameter, value in zip(launching.kernel.parameters, launching.arguments, strict=True):
            if isinstance(value, Scratch):
                memory.setdefault(value, np.full(value.size, 99, value.dtype.numpy))
            elif isinstance(value, Node) and value not in memory:
                memory[value] = np.ascontiguousarray(values[value]).reshape(-1)
            assert memory[value].size == parameter.size
            given.append(memory[value])
        with np.errstate(all="ignore"):
            _function(launching.kernel)(*given)
    return {o: memory[o].reshape(o.shape) for o in outputs}


def assert_close(got: Array, want: Array, dtype: DType, rtol: float, message: str) -> None:
    if not dtype.is_float:
        np.testing.assert_array_equal(got, want, err_msg=message)
        return
    a, b = np.asarray(got, np.float64), np.asarray(want, np.float64)
    finite = np.abs(b[np.isfinite(b)])
    atol = rtol * max(1.0, float(finite.max()) if finite.size else 1.0)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=message)


def check_group(
    group: Group,
    targets: Sequence[Target] = TARGETS,
    rtol: float = 1e-5,
    feeds: Mapping[Node, Array] | None = None,
    *,
    exact: bool = False,
) -> LoweredGroup:
    """The group's kernels agree with NumPy on every target; the schedule for the last target is
    returned.

    With `exact`, NumPy works in float64.
    """
    rng = np.random.default_rng(0)
    given = {n: draw(n.type, rng) for n in group.inputs if isinstance(n.op, Param)} | dict(
        feeds or {}
    )
    wide = {n: a.astype(np.float64) for n, a in given.items()} if exact else given
    values = evaluate(group.outputs, wide)
    for target in targets:
        scheduled = lower(group, target, "k")
        found = run_scheduled(scheduled, group.outputs, values | given)
        for output in group.outputs:
            tolerance = 2e-2 if output.type.dtype.is_half else rtol
            assert_close(
                found[output], values[output], output.type.dtype, tolerance, f"on {target.name}"
            )
    return scheduled


def check_graph(
    graph: Graph,
    targets: Sequence[Target] = TARGETS,
    rtol: float = 1e-4,
    seed: int = 0,
    fuse: bool = True,
    placements: Placements | None = None,
) -> None:
    """Every group of the graph's partition is well formed and computes what it should from exact
    inputs.
    """
    rng = np.random.default_rng(seed)
    outputs = tuple(graph.outputs.values())
    values = evaluate(
        outputs, {n: draw(n.type, rng) for n in walk(outputs) if isinstance(n.op, Param)}
    )
    for target in targets:
        parts = partition(graph, target, fuse=fuse, kind_taken=kind_taken, placements=placements)
        well_formed(parts)
        for group in parts.groups:
            if is_alias(group) or not any(o.type.size for o in group.outputs):
                continue
            found = run_scheduled(lower(group, target, "k"), group.outputs, values)
            for output in group.outputs:
                tolerance = 2e-2 if output.type.dtype.is_half else rtol
                message = f"{group.reason} on {target.name}"
                assert_close(found[output], values[output], output.type.dtype, tolerance, message)


def well_formed(parts: Partition) -> None:
    """Groups come after what they read, hold no leaves, and every output of the graph has one
    maker.
    """
    made: set[Node] = set()
    for group in parts.groups:
        for node in group.inputs:
            assert isinstance(node.op, Param | Const) or node in made, (
                f"{group.reason} reads {node.op} too early"
            )
        assert not made & set(group.outputs), f"{group.reason} writes what another group wrote"
        assert set(group.outputs) <= group.members and group.anchor in group.members
        made.update(group.outputs)
        known = set(group.inputs)
        for node in group.nodes:
            assert not isinstance(node.op, Param | Const)
            assert known.issuperset(node.inputs), f"{group.reason}: nodes out of order"
            known.add(node)
    for output in parts.graph.outputs.values():
        assert output in made or isinstance(output.op, Param | Const)
