"""Depthwise convolutions are computed in vectors, for every layout of the input and the result."""

from __future__ import annotations

from itertools import product

import pytest
from contraction_harness import TARGETS, agree, group, param

from xlac.codegen import lower as table
from xlac.codegen.schedules.decisions import Decisions
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.text import show

F32 = DType.F32
STORED = ("channels last", "maps", "sequence of maps")
RESULTS = ("channels last", "sequence", "maps", "lines of maps")
CHANNELS, BATCH = 18, 2


def depthwise(stored: str, result: str, extents: tuple[int, ...], taps: int, step: int) -> Group:
    """A convolution of values stored in one layout, with a bias, whose result has another."""
    rank, letters = len(extents), "DHW"[-len(extents) :]
    space = tuple(range(1, rank + 1))
    to_last, to_maps = (0, *(a + 1 for a in space), 1), (0, rank + 1, *space)
    shape = (BATCH, *extents, CHANNELS)
    if stored == "channels last":
        x = param("x", Type(F32, shape))
    elif stored == "maps":
        x = build.transpose(param("x", Type(F32, (BATCH, CHANNELS, *extents))), to_last)
    else:
        lines = param("x", Type(F32, (BATCH, CHANNELS, extents[0] * extents[-1])))
        x = build.transpose(build.reshape(lines, (BATCH, CHANNELS, *extents)), to_last)
    layout = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    around, ones = (taps // 2,) * rank, (1,) * rank
    op = Conv(layout, (step,) * rank, around, around, ones, ones, CHANNELS)
    kernel = param("kernel", Type(F32, (*(taps,) * rank, 1, CHANNELS)), "weight")
    anchor = Node.of(op, x, kernel)
    biased = build.maximum(build.add(anchor, param("b", Type(F32, (CHANNELS,)), "weight")), 0.0)
    maps = build.transpose(biased, to_maps)
    output = {
        "channels last": biased,
        "sequence": build.reshape(biased, (BATCH, -1, CHANNELS)),
        "maps": maps,
        "lines of maps": build.reshape(maps, (BATCH, CHANNELS, -1)),
    }[result]
    return group(Kind.CONV, anchor, output)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("result", RESULTS)
def test_no_layout_is_computed_one_element_at_a_time(stored: str, result: str) -> None:
    for target, step, taps in product(("avx512", "avx2"), (1, 2), (3, 7)):
        made = depthwise(stored, result, (9, 20), taps, step)
        for launch in table.lower(
            made, TARGETS[target], "kernel", Decisions("kernel", {})
        ).launches:
            assert "var c: f32 =" not in show(launch.kernel), (target, step, taps)


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.sampled(6)
def test_layouts_agree(stored: str, result: str) -> None:
    for target, step in product(("avx512", "sse", "scalar"), (1, 2)):
        agree(depthwise(stored, result, (5, 18), 3, step), TARGETS[target])
    if stored != "sequence of maps":
        agree(depthwise(stored, result, (21,), 5, 2), TARGETS["avx2"])
