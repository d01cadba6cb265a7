"""Schedules one group made by hand and compares its kernels' results with the graph's meaning."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xlac.codegen import lower as table
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.schedule import Schedule
from xlac.fusion.group import Group, Kind, Partition
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import Array, Sample
from xlac.ir.types import Type
from xlac.memory.planner import planned
from xlac.ops import OPS, sampling
from xlac.ops.control.control import Pick
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.programs.program import Launch, Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.target import Request, Target

TARGETS = {
    "avx512": Target("avx512", 64, 32, masked=True, gathers=True, fma=True).with_facts(
        l1_bytes=48 << 10, l2_bytes=1 << 20
    ),
    "avx2": Target("avx2", 32, 16, fma=True, threads=2),
    "sse": Target("sse", 16, 16),
    "scalar": Target("scalar", 0, 16),
    "size": Target("size", 0, 16, size=True),
    "wide": Target("wide", 4096, 16, masked=True),
}

TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def param(name: str, wanted: Type, kind: str = "input") -> Node:
    return Node.of(Param(name=name, type=wanted, kind=kind))


def conv(
    x: tuple[int, ...],
    kernel: tuple[int, ...],
    *,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    dilation: int = 1,
    kind: str = "weight",
    dtype: DType = DType.F32,
    **given: object,
) -> Node:
    """A convolution of values whose channels are the last axis."""
    rank = len(x) - 2
    letters = "DHW"[-rank:]
    attributes = {
        "layout": (f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        "strides": (stride,) * rank,
        "low": (pad,) * rank,
        "high": (pad,) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (dilation,) * rank,
        "feature_groups": groups,
    } | given
    return Node.of(
        Conv(**attributes), param("x", Type(dtype, x)), param("kernel", Type(dtype, kernel), kind)
    )


def group(kind: Kind, anchor: Node, *outputs: Node) -> Group:
    """Everything that the outputs need, in one group."""
    every = list(walk(outputs or (anchor,)))
    nodes = tuple(n for n in every if not isinstance(n.op, Param | Const))
    inputs = tuple(n for n in every if isinstance(n.op, Param | Const))
    return Group(kind, anchor, nodes, inputs, outputs or (anchor,))


def program(
    made: Group,
    target: Target,
    weights: dict[str, Array],
    asked: Mapping[str, Schedule] | None = None,
) -> Program:
    """The group as a whole program, its parts by the schedules that are asked for."""
    inputs = tuple(n for n in made.inputs if isinstance(n.op, Param) and n.op.kind == "input")
    graph = Graph("test", inputs, {f"y{i}": n for i, n in enumerate(made.outputs)})
    scheduled = table.lower(made, target, "kernel", Decisions("kernel", asked or {}))
    result = planned(Partition(graph, (made,)), {made: scheduled}, weights)[0]
    verify_program(result)
    return result


def values(made: Group, seed: int = 0) -> dict[str, Array]:
    """Random inputs and weights by name: small integers, normal floats."""
    rng = np.random.default_rng(seed)
    params = [n for n in made.inputs if isinstance(n.op, Param)]
    return {
        n.op.name: sampling.draw_one("small" if n.type.dtype.is_integer else "normal", n.type, rng)
        for n in params
    }


def meaning(made: Group, given: dict[str, Array]) -> list[Array]:
    """The outputs by evaluating every node."""
    known: dict[Node, Any] = {}
    for node in walk(made.outputs):
        if isinstance(node.op, Param):
            known[node] = given[node.op.name]
        else:
            with np.errstate(all="ignore"):
                operands = (
                    known[node.inputs[0]]
                    if isinstance(node.op, Pick)
                    else [known[i] for i in node.inputs]
                )
                known[node] = node.op.evaluate(*operands)
    return [known[n] for n in made.outputs]


def compute(
    made: Group,
    target: Target,
    given: dict[str, Array],
    asked: Mapping[str, Schedule] | None = None,
) -> list[Array]:
    """The outputs by running the kernels in the interpreter, or on this machine for a cpu target;
    the kernels are by the schedules that are asked for.
    """
    weights = {
        n.op.name: given[n.op.name]
        for n in made.inputs
        if isinstance(n.op, Param) and n.op.kind == "weight"
    }
    return run(program(made, target, weights, asked), target, given)


def run(made_program: Program, target: Target, given: dict[str, Array]) -> list[Array]:
    """The outputs of a program that a test has looked at."""
    wanted = [np.empty(s.shape, s.dtype.numpy) for s in made_program.outputs]
    fed = {s.name: given[s.name] for s in made_program.inputs}
    results = {s.name: w for s, w in zip(made_program.outputs, wanted, strict=True)}
    if target.name == "cpu":
        from xlac_cpu.backend import CpuBackend

        backend = CpuBackend()
        with tempfile.TemporaryDirectory() as folder:
            legal = legalized(made_program, target)
            artifact = backend.build(backend.emit(legal, target), Path(folder))
            backend.load(artifact, legal, target).run(fed, results)
    else:
        Interpreter(made_program).run(fed, results)
    return wanted


def legalized(made: Program, target: Target) -> Program:
    steps = tuple(
        replace(s, kernel=legalize(s.kernel, target)) if isinstance(s, Launch) else s
        for s in made.steps
    )
    return replace(made, steps=steps)


def cpu(threads: int = 1) -> Target:
    from xlac_cpu.backend import CpuBackend

    return CpuBackend().target(Request(threads=threads))


def agree(made: Group, target: Target, seed: int = 0) -> None:
    """Asserts that kernels and meaning agree."""
    given = values(made, seed)
    for got, want in zip(compute(made, target, given), meaning(made, given), strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind in "iub":
            np.testing.assert_array_equal(got, want)
            continue
        wide, exact = got.astype(np.float64), want.astype(np.float64)
        scale = float(np.abs(exact).max(initial=1.0))
        np.testing.assert_allclose(
            wide, exact, rtol=TOLERANCE[want.dtype.name], atol=TOLERANCE[want.dtype.name] * scale
        )


def of_sample(name: str, sample: Sample, kinds: Sequence[str] = ("input",), **more: object) -> Node:
    """The op's node for a conformance sample; `kinds` says which operands are weights, the last
    repeated.
    """
    names = [*kinds, *[kinds[-1]] * len(sample.inputs)]
    operands = [param(f"x{i}", t, names[i]) for i, t in enumerate(sample.inputs)]
    return Node.of(OPS[name](**sample.attributes, **more), *operands)
