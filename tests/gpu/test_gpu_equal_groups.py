"""Groups of one structure in one program: the second is scheduled by saying the first's schedule of
its own nodes, which loses nothing; both results are right, at the next call again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from gpu_harness import LARGE, SMALL, agree, apply, given, graph_of, lowered, param
from library_products import TARGET as LIBRARY
from loops_harness import MASKED, SCALAR

from xlac.codegen.claims import kind_taken
from xlac.codegen.core.lowered_group import LoweredGroup, PackedConstant, Scratch
from xlac.codegen.kernel_dedup import translated
from xlac.codegen.lower import lower
from xlac.codegen.schedules.digest import structure
from xlac.fusion.group import Group, Kind, Partition
from xlac.fusion.partition import is_alias, partition
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Op, Sample
from xlac.ops import OPS, build
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.program import Role
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.source import UnsupportedError
from xlac_sdk.target import Target

TICKETS = replace(SMALL, instructions=LARGE.instructions, processors=8)
TARGETS = (SCALAR, MASKED, SMALL, TICKETS, LARGE, LIBRARY)


def scheduled(
    op: type[Op], sample: Sample, target: Target
) -> Iterator[tuple[Group, LoweredGroup, Group]]:
    """The groups of a sample, each scheduled, and the same of other nodes."""
    (first, second) = (_partition(op, sample, target) for _ in range(2))
    for one, other in zip(first.groups, second.groups, strict=True):
        if is_alias(one) or one.kind in (Kind.CONTROL, Kind.CLAIMED):
            continue
        yield one, lower(one, target, "k"), other


def _partition(op: type[Op], sample: Sample, target: Target) -> Partition:
    inputs = tuple(Node.of(Param(f"x{k}", t, "input")) for k, t in enumerate(sample.inputs))
    node = Node.of(op(**sample.attributes), *inputs)
    several = isinstance(node.types, tuple)
    outputs = (
        tuple(Node(Pick(index=k), (node,), t) for k, t in enumerate(node.results))
        if several
        else (node,)
    )
    return partition(
        Graph("g", inputs, {f"o{k}": o for k, o in enumerate(outputs)}),
        target,
        kind_taken=kind_taken,
    )


def alike(
    one: object, other: object, nodes: Mapping[Node, Node], memory: dict[object, object], place: str
) -> None:
    """Checks every field of everything in two schedules: nodes are those of the other group, memory
    its own, all else is equal.
    """
    assert type(one) is type(other), place
    if isinstance(one, Node):
        assert nodes[one] is other, place
    elif isinstance(one, tuple):
        assert isinstance(other, tuple)
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            alike(a, b, nodes, memory, f"{place}[{k}]")
    elif is_dataclass(one) and type(one).__module__ == LoweredGroup.__module__:
        if isinstance(one, Scratch | PackedConstant):
            assert memory.setdefault(one, other) is other and one is not other, place
        for field in fields(one):
            alike(
                getattr(one, field.name),
                getattr(other, field.name),
                nodes,
                memory,
                f"{place}.{field.name}",
            )
    else:
        assert one is other or one == other, place


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("mnemonic", sorted(m for m in OPS if list(OPS[m].samples())))
@pytest.mark.sampled(120)
def test_a_schedule_said_of_other_nodes_loses_nothing(mnemonic: str, target: Target) -> None:
    for sample in OPS[mnemonic].samples():
        try:
            found = list(scheduled(OPS[mnemonic], sample, target))
        except UnsupportedError:
            continue
        for group, made, other in found:
            assert structure(group) == structure(other)
            nodes = dict(
                zip((*group.inputs, *group.nodes), (*other.inputs, *other.nodes), strict=True)
            )
            memory: dict[object, object] = {}
            alike(made, translated(group, made, other), nodes, memory, mnemonic)
            assert len(set(map(id, memory.values()))) == len(memory)


def attention(tag: str, keys: int, dtype: DType = DType.F32) -> Node:
    heads = [
        param(f"{name}{tag}", (1, 2, count, 16), dtype)
        for name, count in (("q", 1), ("k", keys), ("v", keys))
    ]
    return apply("attention", *heads)


def scattered(tag: str, dtype: DType) -> Node:
    how = {
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
        "combine": "add",
    }
    return apply(
        "scatter",
        param(f"x{tag}", (60,), dtype),
        param(f"i{tag}", (90, 1), DType.I32),
        param(f"u{tag}", (90,), dtype),
        **how,
    )


EQUAL: dict[str, Callable[[str], tuple[Node, ...]]] = {
    "pointwise": lambda t: (build.exp(param(f"x{t}", (500,))),),
    "transposed": lambda t: (build.transpose(param(f"x{t}", (40, 33)), (1, 0)),),
    "rows": lambda t: (apply("softmax", param(f"x{t}", (9, 70)), axis=-1),),
    "several rows": lambda t: (
        build.reduce(x := param(f"x{t}", (2, 2100)), "max", 1),
        build.reduce(x, "add", 1),
    ),
    "a whole sum": lambda t: (
        build.reduce(build.mul(param(f"x{t}", (4200,)), param(f"y{t}", (4200,))), "add"),
    ),
    "columns": lambda t: (build.apply1("neg", build.reduce(param(f"x{t}", (700, 9)), "add", 0)),),
    "a long softmax": lambda t: (apply("softmax", param(f"x{t}", (2, 1500)), axis=-1),),
    "product": lambda t: (
        build.dot(param(f"x{t}", (33, 20)), param(f"w{t}", (20, 17)), ((1,), (0,))),
    ),
    "one row by a matrix": lambda t: (
        build.dot(param(f"x{t}", (1, 300)), param(f"w{t}", (300, 17)), ((1,), (0,))),
    ),
    "decode": lambda t: (attention(t, 200),),
    "decode, few keys": lambda t: (attention(t, 5),),
    "cumulative": lambda t: (apply("cumsum", param(f"x{t}", (3, 300)), axis=1),),
    "sorted": lambda t: (apply("sort", param(f"x{t}", (300,)), axis=0),),
    "scattered integers": lambda t: (scattered(t, DType.I32),),
    "scattered floats": lambda t: (scattered(t, DType.F32),),
    "window": lambda t: (apply("max_pool2d", param(f"x{t}", (1, 3, 9, 9)), kernel=3, stride=2),),
    "replaced": lambda t: (
        apply(
            "dyn_update",
            param(f"x{t}", (30, 8)),
            param(f"u{t}", (2, 8)),
            param(f"i{t}", (), DType.I32),
            param(f"j{t}", (), DType.I32),
        ),
    ),
}
"""What each of the schedules for GPUs does, where sizes and facts make it do its most."""


@pytest.mark.parametrize("target", [SMALL, TICKETS], ids=["launches", "tickets"])
@pytest.mark.parametrize("what", EQUAL)
@pytest.mark.sampled(8)
def test_equal_groups_compute_their_own_results(what: str, target: Target) -> None:
    once, twice = EQUAL[what]("a"), (*EQUAL[what]("a"), *EQUAL[what]("b"))
    program = agree(*twice, target=target, rtol=1e-4)
    assert len(program.kernels) <= len(agree(*once, target=target, rtol=1e-4).kernels) + (
        what in ("pointwise", "sorted")
    )


@pytest.mark.parametrize("what", ["a whole sum", "columns", "decode"])
def test_each_of_equal_groups_has_counters_of_its_own(what: str) -> None:
    """Counters are zero at first and after each call: they lie in memory that lasts, not in the
    arena.
    """
    twice = (*EQUAL[what]("a"), *EQUAL[what]("b"))
    program = lowered(*twice, target=TICKETS).program
    verify_program(program)
    counters = [s for s in program.slots if s.dtype is DType.U32]
    assert (
        len(counters) == 2
        and {s.role for s in counters} == {Role.STATE}
        and counters[0].offset != counters[1].offset
    )
    made, feeds = Interpreter(program), given(twice, {})
    calls = [
        {s.name: np.zeros(s.extents({}), s.dtype.numpy) for s in program.outputs} for _ in range(2)
    ]
    for found in calls:
        made.run(feeds, found)
    for name, wanted in interpret(graph_of(twice), feeds, {}, float64=True).items():
        np.testing.assert_allclose(calls[0][name], wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(calls[1][name], calls[0][name])
