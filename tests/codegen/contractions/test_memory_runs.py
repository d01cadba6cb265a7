"""Operands are packed from any order of their axes, whole vectors along what memory has side by
side: the same panels to the bit.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from contraction_harness import TARGETS, agree, compute, conv, group, param, values
from schedule_draws import lowered

from xlac.codegen.core.contraction.contraction import Axis
from xlac.codegen.core.contraction.memory_run import memory_run
from xlac.codegen.schedules.gemm import PackSchedule
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import Sym, Symbol
from xlac.ir.graph import Node, apply
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.text import show

OPEN = Sym((((Symbol("n", 1, 8, 4),), 1),))
RUNS = {
    "rows of a matrix": ([(64, 1)], 64, [(0, False)]),
    "taps of channels that lie beside them": (
        [(3, 3), (3, 1), (64, 9)],
        576,
        [(2, False), (0, False), (1, False)],
    ),
    "taps that are reversed": ([(3, -3), (3, -1), (64, 900)], 9, [(0, True), (1, True)]),
    "an axis of one element": ([(1, 7), (5, 1)], 5, [(1, False)]),
    "nothing side by side": ([(3, 30), (64, 2)], 1, []),
    "an open axis": ([(4, OPEN), (OPEN, 1)], OPEN, [(1, False)]),
    "an open axis that is reversed": ([(OPEN, -1)], 1, []),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs_are_found(name: str) -> None:
    axes, length, wanted = RUNS[name]
    run = memory_run([Axis(extent, 0, right) for extent, right in axes])
    assert [(axis.level, axis.backward) for axis in run.axes] == wanted
    assert run.length == length


def drawn(random: Random) -> Group:
    """A convolution with strides whose weights, made at run time, lie in a random order, some axes
    reversed; or a product with a transposed matrix.
    """
    taps = random.choice([(1, 1), (3, 3), (2, 5), (1, 3), (4, 4)])
    channels, columns = random.choice([3, 8, 17, 32]), random.choice([16, 37, 64])
    shape = (*taps, channels, columns)
    order = random.sample(range(4), 4)
    kernel = param("kernel", Type(DType.F32, tuple(shape[axis] for axis in order)))
    kernel = build.transpose(kernel, tuple(order.index(axis) for axis in range(4)))
    steps = [random.choice([1, -1]) for _ in range(2)] + [1, 1]
    starts = [n - 1 if step < 0 else 0 for n, step in zip(shape, steps, strict=True)]
    stops = [-1 if step < 0 else n for n, step in zip(shape, steps, strict=True)]
    if -1 in steps:
        turned = {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}
        kernel = apply("slice", kernel, **turned)
    anchor = conv((2, 13, 13, channels), shape, stride=2, pad=1, kind="input")
    return group(Kind.CONV, Node.of(anchor.op, anchor.inputs[0], kernel))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.sampled(10)
def test_squares_in_registers_pack_the_same_as_single_elements(seed: int) -> None:
    random = Random(seed)
    made = drawn(random)
    target = TARGETS[random.choice(["avx512", "avx2", "sse"])]
    found = lowered(made, target)
    assert found is not None
    chosen = found.schedules.get("pack")
    if chosen is None:
        pytest.skip("it is not packed")
    assert isinstance(chosen, PackSchedule)
    given = values(made, seed)
    single = replace(chosen, transposed=False, prefetch=False)
    ways = [single]
    for how in ({"transposed": True}, {"transposed": True, "prefetch": True}):
        one = replace(single, **how)
        if lowered(made, target, {"pack": one}) is not None:
            ways.append(one)
    results = [compute(made, target, given, {"pack": one})[0] for one in ways]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    agree(made, target)


@pytest.mark.parametrize(
    ("order", "reverse"), [((3, 2, 0, 1), False), ((3, 2, 0, 1), True), ((2, 3, 0, 1), True)]
)
def test_weights_as_networks_keep_them_are_packed_in_squares(
    order: tuple[int, ...], reverse: bool
) -> None:
    """[out, in, rows, columns], forwards, and in the gradient for data, where only nine taps of a
    column lie side by side.
    """
    shape = (3, 3, 64, 64)
    kernel = param("kernel", Type(DType.F32, tuple(shape[axis] for axis in order)))
    kernel = build.transpose(kernel, tuple(order.index(axis) for axis in range(4)))
    if reverse:
        turned = {"starts": (2, 2, 0, 0), "stops": (-1, -1, 64, 64), "steps": (-1, -1, 1, 1)}
        kernel = apply("slice", kernel, **turned)
    anchor = conv((1, 14, 14, 64), shape, stride=2, pad=1, kind="input")
    made = group(Kind.CONV, Node.of(anchor.op, anchor.inputs[0], kernel))
    found = lowered(made, TARGETS["avx512"])
    assert found is not None
    chosen = found.schedules["pack"]
    assert isinstance(chosen, PackSchedule)
    assert chosen.transposed
    assert chosen.prefetch == (order == (3, 2, 0, 1))
    pack = next(one.kernel for one in found.launches if one.kernel.name == "kernel_pack")
    assert ("prefetch" in show(pack)) == chosen.prefetch
    agree(made, TARGETS["avx512"])
