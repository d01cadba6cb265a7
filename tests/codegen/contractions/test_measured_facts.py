"""Measured facts change how kernels are blocked and read their operands, and no bit of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import cycle

import numpy as np
import pytest
from contraction_harness import conv, param

from xlac.driver import executable, lower
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.machine_facts import LIMITS, MachineFacts
from xlac_sdk.target import Request, Target

BACKEND = find("cpu")


def f32(name: str, *shape: int, kind: str = "input") -> Node:
    return param(name, Type(DType.F32, shape), kind)


def dot(rows: int, depth: int, columns: int, kind: str = "input") -> Node:
    return build.apply1("matmul", f32("x", rows, depth), f32("w", depth, columns, kind=kind))


def attention() -> Node:
    q, k, v = (f32(name, 1, 2, 96, 32) for name in "qkv")
    return build.apply1("attention", q, k, v)


def turned(rows: int, depth: int, columns: int) -> Node:
    x = build.transpose(f32("x", depth, rows), (1, 0))
    return build.apply1("matmul", x, f32("w", depth, columns))


MODELS: dict[str, Callable[[], Node]] = {
    "read in place or packed": lambda: dot(192, 256, 128),
    "rows that evict each other": lambda: dot(96, 1024, 64),
    "a constant": lambda: dot(40, 96, 200, "weight"),
    "a few rows of a large constant": lambda: dot(16, 768, 1024, "weight"),
    "a long sum": lambda: dot(96, 9000, 32, "weight"),
    "a transposed left operand": lambda: turned(128, 300, 160),
    "a square convolution": lambda: conv((1, 14, 14, 64), (3, 3, 64, 64), pad=1),
    "attention": attention,
    "a softmax": lambda: build.apply1("softmax", f32("x", 64, 500), axis=-1),
    "sums of columns": lambda: build.apply1("sum", f32("x", 3000, 96), axis=0),
    "a large result": lambda: build.exp(f32("x", 1 << 20)),
}


SAME = {"a square convolution", "attention", "a softmax", "sums of columns", "a large result"}
"""Those whose kernels do not depend on measured facts."""


def variations(base: MachineFacts) -> Iterator[tuple[str, MachineFacts]]:
    """All numbers halved and all doubled; every other one halved and the rest doubled; drawn."""
    names, rng = [field.name for field in fields(base)], np.random.default_rng(0)
    few = [[0.5], [2.0], [0.5, 2.0], [2.0, 0.5], rng.choice([0.5, 1.0, 2.0], len(names))]
    for factors in few:
        by = dict(zip(names, cycle(factors), strict=False))
        yield str(by), replace(base, **{name: _scaled(base, name, by[name]) for name in names})


def _scaled(base: MachineFacts, name: str, by: float) -> object:
    value = getattr(base, name)
    if isinstance(value, str):
        return value
    scaled = type(value)(value * by)
    return scaled if LIMITS[name].holds(scaled) else value


def sources(model: Model, target: Target) -> dict[str, str]:
    made = lower(model, target)
    return BACKEND.emit(made.program, target)


def result(model: Model, target: Target, given: dict[str, Array]) -> Array:
    called = executable(lower(model, target), BACKEND)
    found = called(**given)
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", MODELS)
def test_measured_facts_change_no_bit(name: str) -> None:
    y = MODELS[name]()
    rng = np.random.default_rng(1)
    inputs, weights = {}, {}
    for node in walk((y,)):
        if isinstance(node.op, Param):
            values = rng.standard_normal(node.shape).astype(np.float32)
            (weights if node.op.kind == "weight" else inputs)[node.op.name] = values
    params = [n for n in walk((y,)) if isinstance(n.op, Param) and n.op.kind == "input"]
    model = Model(Graph("varied", tuple(params), {"y": y}), weights)
    base = BACKEND.target(Request(threads=2))
    wanted, known = result(model, base, inputs), [sources(model, base)]
    for what, facts in variations(base.hardware):
        target = replace(base, hardware=facts, unmeasured=base.hardware)
        text = sources(model, target)
        if text not in known:
            known.append(text)
            got = result(model, target, inputs)
            assert np.array_equal(got.view(np.uint32), wanted.view(np.uint32)), what
    assert (len(known) > 1) == (name not in SAME)
