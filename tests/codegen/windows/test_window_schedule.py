"""Windows: every stride, padding, dilation, combination and body gives what the graph means."""

from __future__ import annotations

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, cpu, group, of_sample, param

from xlac.fusion.group import Kind
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType

F32 = DType.F32


def window(
    shape: tuple[int, ...], combine: str = "max", dtype: DType = F32, **given: object
) -> Node:
    return Node.of(
        Window(**_attributes(len(shape), combine, given)), param("x", Type(dtype, shape))
    )


def _attributes(rank: int, combine: str, given: dict[str, object]) -> dict[str, object]:
    ones, zeros = (1,) * rank, (0,) * rank
    known = {
        "strides": ones,
        "low": zeros,
        "high": zeros,
        "base_dilation": ones,
        "window_dilation": ones,
    }
    return {"combine": combine} | known | given


POOL = {"window": (1, 3, 3, 1), "strides": (1, 2, 2, 1), "low": (0, 1, 0, 0), "high": (0, 1, 1, 0)}
CASES = {
    "max pool": window((2, 9, 8, 20), **POOL),
    "sum pool": window((2, 9, 8, 20), "add", **POOL),
    "channels first": window(
        (2, 5, 9, 8), window=(1, 1, 3, 3), strides=(1, 1, 2, 2), low=(0, 0, 1, 1), high=(0, 0, 1, 1)
    ),
    "larger than the input": window((9, 20), "add", window=(9, 5), low=(4, 2), high=(4, 2)),
    "outside altogether": window((9, 20), "add", window=(2, 1), low=(12, 0), high=(15, 0)),
    "cropped": window((9, 20), "add", window=(2, 3), low=(12, -2), high=(-3, -4)),
    "half": window((3, 200), "add", DType.F16, window=(1, 3), strides=(1, 2)),
    "spread": window(
        (5, 9, 6),
        "add",
        window=(3, 2, 1),
        base_dilation=(2, 1, 1),
        low=(1, 0, 0),
        window_dilation=(1, 3, 1),
    ),
    "whole": window((4, 7, 33), "max", window=(4, 7, 1)),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.sampled(4)
def test_samples(target):
    for sample in Window.samples():
        agree(group(Kind.WINDOW, of_sample("window", sample)), target)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(4)
def test_cases(name):
    for target in TARGETS.values():
        agree(group(Kind.WINDOW, CASES[name]), target)
    agree(group(Kind.WINDOW, CASES[name]), cpu())


def test_average_pooling_is_a_sum_with_a_division_after_it():
    total = CASES["sum pool"]
    ones = param("count", total.type)
    for target in TARGETS.values():
        made = group(
            Kind.WINDOW,
            total,
            build.maximum(build.div(total, build.add(build.mul(ones, ones), 1.0)), 0.0),
        )
        agree(made, target)


def test_what_feeds_a_window_is_computed_where_it_is_read():
    x = param("x", Type(F32, (2, 9, 8, 20)))
    anchor = Node.of(CASES["max pool"].op, build.mul(x, x))
    for target in TARGETS.values():
        agree(group(Kind.WINDOW, anchor), target)


def _scalar(name: str, dtype: DType) -> Node:
    return Node.of(Param(name=name, type=Type(dtype), kind="input"))


def _largest_and_place() -> Graph:
    """The larger value with its place: a body of two results."""
    value, place, other, elsewhere = (
        _scalar(n, d) for n, d in zip("abcd", (F32, DType.I32) * 2, strict=True)
    )
    keep = build.compare(value, "ge", other)
    outputs = {
        "value": build.select(keep, value, other),
        "place": build.select(keep, place, elsewhere),
    }
    return Graph("body", (value, place, other, elsewhere), outputs)


@pytest.mark.parametrize(
    "pads", [((0, 0, 0), (0, 0, 0)), ((0, 1, 0), (0, 1, 0)), ((0, 0, 1), (0, 0, 0))], ids=str
)
@pytest.mark.sampled(6)
def test_bodies_of_several_results(pads):
    shape = (2, 7, 9)
    given = {"window": (1, 3, 3), "strides": (1, 2, 1), "low": pads[0], "high": pads[1]}
    op = Window(body=_largest_and_place(), **_attributes(3, "body", given))
    first, second = param("x", Type(F32, shape)), param("places", Type(DType.I32, shape))
    lowest, none = build.constant(np.float32(-1e30)), build.constant(np.int32(-1))
    anchor = Node.of(op, first, second, lowest, none)
    value, place = (Node(Pick(index=i), (anchor,), anchor.results[i]) for i in range(2))
    for target in TARGETS.values():
        for outputs in (
            (value, place),
            (place,),
            (build.add(value, 1.0), place),
            (build.add(value, 1.0),),
        ):
            agree(group(Kind.WINDOW, anchor, *outputs), target)
