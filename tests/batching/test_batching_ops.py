"""Every operation along a leading axis of each set of its operands: as one after another."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from stacked import SIZE, compare

from xlac.batching.along import Along
from xlac.batching.control import is_control
from xlac.batching.walk import Batch
from xlac.ir.composite import Composite
from xlac.ir.graph import Node, walk
from xlac.ir.op import OPS, Op, Sample
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.sampling import draw
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

NAMES = [name for name in sorted(OPS) if OPS[name].operands and OPS[name].samples()]


def small(name: str) -> list[Sample]:
    """Samples of an operation of moderate size, floats as f64: sums differ by rounding."""
    found = []
    for sample in OPS[name].samples():
        types = tuple(t.with_dtype(DType.F64) if t.dtype is DType.F32 else t for t in sample.inputs)
        if types and sum(prod(t.shape) for t in types) <= 2000:  # type: ignore[type-var]
            found.append(replace(sample, inputs=types))
    return found


def values(sample: Sample, mapped: tuple[bool, ...]) -> dict[str, Any]:
    """Values of a sample, others for each place of the axis."""
    draws = [draw(sample, seed) for seed in range(SIZE)]
    return {
        f"x{n}": np.stack([each[n] for each in draws]) if on else draws[0][n]
        for n, on in enumerate(mapped)
    }


def cases(name: str) -> list[tuple[Sample, tuple[bool, ...]]]:
    """Samples with sets of operands: every set where there are at most three."""
    found = []
    for number, sample in enumerate(small(name)):
        count = len(sample.inputs)
        sets = [s for s in product((True, False), repeat=count) if any(s)]
        found += [
            (sample, s) for s in (sets if count <= 3 else [sets[0], sets[number % len(sets)]])
        ]
    return found


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str, some: Any) -> None:
    for sample, mapped in some(cases(name), 11 if issubclass(OPS[name], Composite) else 4):
        params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs)]
        try:
            outputs = results(Node.of(OPS[name](**sample.attributes), *params))
        except ValueError:  # it takes no f64
            continue
        floats = any(t.dtype.is_float for t in sample.inputs)
        wide = floats and all(t.dtype is DType.F64 for t in sample.inputs if t.dtype.is_float)
        compare(
            params,
            outputs,
            values(sample, mapped),
            mapped,
            1e-12 if wide else 2e-3 if floats else 0.0,
        )


def test_every_primitive_says_something() -> None:
    """What has no expansion says itself what becomes of it along a leading axis."""
    silent = [
        name
        for name, op in OPS.items()
        if op.operands
        and not issubclass(op, Composite)
        and op is not Pick
        and not is_control(object.__new__(op))
        and op.leading is None
        and op.batched is Op.batched
    ]
    assert not silent, f"give them `leading` or `batched`: {silent}"


KEPT: dict[str, tuple[bool, ...]] = {
    "softmax": (True,), "logsumexp": (True,), "mean": (True,), "argmax": (True,), "topk": (True,),
    "cumsum": (True,), "layer_norm": (True, False, False), "rms_norm": (True, False),
    "linear": (True, False, False), "matmul": (True, False), "conv2d": (True, False, False),
    "conv_transpose2d": (True, False, False), "max_pool2d": (True,), "global_avg_pool": (True,),
    "attention": (True, True, True), "gelu": (True,), "clip": (True,),
}  # fmt: skip
"""Composites that backends take whole, and the operands that usually have the axis."""


@pytest.mark.parametrize("name", KEPT)
def test_composites_stay_whole(name: str) -> None:
    mapped = KEPT[name]
    sample = next(
        s
        for s in OPS[name].samples()
        if len(s.inputs) == len(mapped) and s.attributes.get("axis", 0) is not None
    )
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs)]
    outputs = results(Node.of(OPS[name](**sample.attributes), *params))
    given = {
        p: Along(build.param(f"y{n}", p.type.dtype, (SIZE, *p.shape)), on)
        if on
        else Along(p, False)
        for n, (p, on) in enumerate(zip(params, mapped, strict=True))
    }
    found = Batch(given, SIZE).run(outputs)
    assert name in [node.op.mnemonic for node in walk(each.node for each in found)]
