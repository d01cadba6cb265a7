"""Scans that keep every k-th carry: the same derivatives, from less that is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import compare, evaluated

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Node, walk
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import CountedScan
from xlac.ops.control.control import Scan
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

F = DType.F64
ROW, SQUARE, COUNT = Type(F, (3,)), Type(F, (3, 3)), Type(DType.I32)


def step(h: Node, n: Node, x: Node, w: Node) -> tuple[Node, ...]:
    """Carries a number of the step too, and yields."""
    new = build.apply1("tanh", build.add(build.dot(w, h, ((1,), (0,))), build.exp(x)))
    return build.mul(new, new), build.add(n, 1), build.mul(new, build.cast(n, F))


def scan(
    length: int, every: int, reverse: bool = False
) -> tuple[list[Node], list[Node], dict[str, Any]]:
    body = build.graph("step", [ROW, COUNT, ROW, SQUARE], step)
    types = [ROW, COUNT, Type(F, (length, 3)), SQUARE]
    given = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]
    rng = np.random.default_rng(length)
    values: dict[str, Any] = {f"x{n}": rng.uniform(-0.9, 0.9, t.shape) for n, t in enumerate(types)}  # type: ignore[arg-type]
    values["x1"] = np.asarray(2, np.int32)
    op = Scan(body, length, 2, 1, reverse, every)
    return given, list(results(Node.of(op, *given))), values


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("length", "every"), [(6, 2), (7, 3), (5, 1), (2, 9), (0, 2)])
def test_derivatives(length: int, every: int, reverse: bool) -> None:
    given, outputs, values = scan(length, every, reverse)
    compare(given, outputs, values)
    plain = gradient(*scan(length, 0, reverse))
    for one, other in zip(gradient(given, outputs, values), plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def gradient(given: list[Node], outputs: list[Node], values: dict[str, Any]) -> list[Any]:
    wrt = [given[0], given[2], given[3]]
    found = linearize(outputs, wrt)
    back = found.transposed([build.like(0.5, o) if o.type.dtype is F else None for o in outputs])
    return evaluated(given, [*found.values, *back], values)


def kept(every: int, length: int = 64) -> int:
    """Elements of all stacks that the way back reads."""
    given, outputs, _ = scan(length, every)
    back = linearize(outputs[:1], [given[3]]).transposed([build.like(1.0, outputs[0])])
    found = {
        (source, n.op.index)  # type: ignore[attr-defined]
        for n in walk(back)
        if n.op.mnemonic == "pick" and isinstance((source := n.inputs[0]).op, Scan | CountedScan)
    }
    return sum(s.results[index].size for s, index in found)  # type: ignore[misc]


def test_less_is_kept() -> None:
    """Of 64 steps, 8 carries; each has what its own steps need while it is gone through again."""
    everything, some = kept(0), kept(8)
    assert some < everything / 4
    assert kept(1) < everything


@pytest.mark.parametrize("every", [2, 3])
def test_derivatives_of_derivatives(every: int) -> None:
    given, outputs, values = scan(5, every)
    value = build.reduce(outputs[0], "add")
    (first,) = linearize([value], [given[3]]).transposed([build.constant(1.0, F)])
    compare(given, [build.reduce(build.mul(first, first), "add")], values, tolerance=2e-5)
