"""Convolutions: every layout, stride, padding, dilation and grouping gives what the graph means."""

from __future__ import annotations

import pytest
from contraction_harness import TARGETS, agree, conv, cpu, group, of_sample, param

from xlac.codegen import lower as table
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.text import show as text_of

F32 = DType.F32
FEW = [TARGETS[name] for name in ("avx512", "sse")]


CASES = {
    "same": conv((1, 7, 7, 20), (3, 3, 20, 37), pad=1),
    "strided": conv((2, 9, 8, 5), (3, 3, 5, 40), stride=2, pad=1),
    "stem": conv((1, 13, 12, 3), (7, 7, 3, 33), stride=2, pad=3),
    "pointwise": conv((3, 5, 5, 16), (1, 1, 16, 32)),
    "pointwise strided": conv((2, 5, 6, 16), (1, 1, 16, 20), stride=2),
    "grouped": conv((1, 8, 8, 16), (3, 3, 4, 32), pad=1, groups=4),
    "grouped at run time": conv((1, 8, 8, 16), (3, 3, 4, 32), pad=1, groups=4, kind="input"),
    "dilated": conv((1, 11, 9, 6), (3, 2, 6, 18), dilation=3, pad=2),
    "transposed": conv((1, 4, 5, 6), (3, 3, 6, 18), pad=2, lhs_dilation=(2, 3)),
    "one channel out": conv((2, 12, 8), (3, 8, 1), pad=1),
    "one channel in and out": conv((1, 5, 9, 1), (3, 3, 1, 1)),
    "volume": conv((1, 4, 5, 6, 7), (2, 2, 2, 7, 9), pad=1),
    "cropped": conv((1, 8, 8, 6), (3, 3, 6, 8), pad=-1),
    "depthwise": conv((1, 7, 7, 20), (3, 3, 1, 20), pad=1, groups=20),
    "depthwise strided": conv((2, 9, 9, 37), (3, 3, 1, 37), stride=2, pad=1, groups=37),
    "depthwise dilated": conv(
        (1, 8, 8, 64), (3, 3, 1, 64), pad=1, groups=64, dilation=2, kind="input"
    ),
    "depthwise line": conv((1, 20, 6), (5, 1, 6), groups=6),
    "depthwise cropped": conv((1, 9, 11, 20), (3, 3, 1, 20), groups=20, low=(-1, 2), high=(2, -1)),
    "depthwise far": conv((1, 5, 4, 16), (3, 3, 1, 16), pad=7, groups=16, dilation=3, stride=2),
    "depthwise computed": conv((1, 5, 4, 16), (5, 5, 1, 16), pad=2, groups=16),
    "depthwise half": conv((1, 9, 9, 16), (3, 3, 1, 16), pad=1, groups=16, dtype=DType.F16),
    "half": conv((1, 5, 6, 16), (3, 3, 16, 16), pad=1, dtype=DType.BF16),
    "multiplier": conv((1, 6, 6, 5), (3, 3, 1, 15), pad=1, groups=5),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.sampled(12)
def test_samples(target, some):
    for number, sample in some(list(enumerate(Conv.samples())), 3):
        agree(
            group(
                Kind.CONV, of_sample("conv", sample, (("input", "weight"), ("input",))[number % 2])
            ),
            target,
        )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(12)
def test_channels_last(name):
    small = (
        "pointwise",
        "grouped",
        "dilated",
        "transposed",
        "one channel out",
        "depthwise strided",
        "multiplier",
    )
    for target in TARGETS.values() if name in small else FEW:
        agree(group(Kind.CONV, CASES[name]), target)


@pytest.mark.parametrize("name", ["same", "strided", "pointwise", "depthwise", "depthwise strided"])
@pytest.mark.sampled(4)
def test_epilogues(name):
    anchor = CASES[name]
    channels = anchor.shape[-1]
    biased = build.add(anchor, param("bias", Type(F32, (channels,)), "weight"))
    scaled = build.mul(biased, param("scale", Type(F32, (channels,)), "weight"))
    result = build.maximum(build.add(scaled, param("residual", anchor.type)), 0.0)
    for target in FEW:
        agree(group(Kind.CONV, anchor, result), target)
        agree(group(Kind.CONV, anchor, result, biased), target)


PLANES = {  # x by batch, channel and space; strides, padding and dilation by space
    "square": ((1, 20, 7, 7), (3, 3), (1, 1), 1, 1),
    "odd": ((2, 3, 9, 37), (3, 3), (2, 1), 1, 1),
    "dilated": ((1, 4, 8, 33), (3, 3), (1, 1), 2, 2),
    "even taps": ((1, 5, 6, 16), (2, 4), (3, 1), 0, 1),
    "line": ((3, 6, 40), (5,), (1,), 2, 1),
    "volume": ((1, 4, 5, 6, 7), (2, 3, 2), (2, 1, 1), 1, 1),
    "cropped": ((1, 3, 9, 20), (3, 3), (1, 1), -1, 1),
    "strided along rows": ((1, 3, 9, 20), (3, 3), (1, 2), 1, 1),
}


@pytest.mark.parametrize("dtype", [F32, DType.BF16], ids=str)
@pytest.mark.parametrize("name", PLANES)
@pytest.mark.sampled(8)
def test_depthwise_channel_by_channel(name, dtype):
    """As the model gives it, and turned by the graph as layouts are chosen; weights known and not;
    with what follows.
    """
    shape, taps, strides, pad, dilation = PLANES[name]
    rank, channels, letters = len(taps), shape[1], "DHW"[-len(taps) :]
    x = param("x", Type(dtype, shape))
    kernel = param(
        "kernel", Type(dtype, (channels, 1, *taps)), "weight" if name != "odd" else "input"
    )

    def convolved(node, layout):
        op = Conv(
            (layout, "OI" + letters, layout),
            strides,
            (pad,) * rank,
            (pad,) * rank,
            (1,) * rank,
            (dilation,) * rank,
            channels,
            1,
            dtype,
        )
        return Node.of(op, node, kernel)

    first = convolved(x, "NC" + letters)
    last = convolved(build.transpose(x, (0, *range(2, 2 + rank), 1)), "N" + letters + "C")
    biased = build.maximum(build.add(last, param("bias", Type(dtype, (channels,)), "weight")), 0.0)
    turned = build.transpose(biased, (0, 1 + rank, *range(1, 1 + rank)))
    for target in TARGETS.values() if dtype is F32 else FEW:
        agree(group(Kind.CONV, first), target)
        agree(group(Kind.CONV, last, turned), target)


def test_an_input_computed_by_the_group():
    x = param("x", Type(F32, (1, 6, 6, 5)))
    anchor = Node.of(CASES["multiplier"].op, build.maximum(x, 0.0), CASES["multiplier"].inputs[1])
    for target in FEW:
        agree(group(Kind.CONV, anchor), target)


@pytest.mark.parametrize(
    "name", ["same", "strided", "stem", "pointwise", "grouped", "half", "transposed"]
)
@pytest.mark.sampled(14)
def test_results_in_another_layout(name):
    anchor = CASES[name]
    channels = anchor.shape[-1]
    biased = build.add(anchor, param("bias", Type(anchor.type.dtype, (channels,)), "weight"))
    for target in TARGETS.values() if name in ("same", "stem") else FEW:
        agree(group(Kind.CONV, anchor, build.transpose(anchor, (0, 3, 1, 2))), target)
        agree(
            group(
                Kind.CONV, anchor, build.transpose(build.maximum(biased, 0.0), (0, 3, 1, 2)), biased
            ),
            target,
        )


def test_results_along_rows_are_turned_around_in_registers():
    """No vector is scattered where rows are neighbours in memory."""
    anchor = conv((1, 20, 20, 8), (3, 3, 8, 32))
    made = table.lower(
        group(Kind.CONV, anchor, build.transpose(anchor, (0, 3, 1, 2))), TARGETS["avx512"], "kernel"
    )
    text = text_of(made.launches[-1].kernel)
    assert "] = " in text and "[ramp(" not in text


def test_only_windows_that_leave_the_input_copy_it():
    kernels = {
        name: len(table.lower(group(Kind.CONV, CASES[name]), TARGETS["avx512"], "kernel").launches)
        for name in CASES
    }
    assert (
        kernels["pointwise"]
        == kernels["pointwise strided"]
        == kernels["cropped"]
        == kernels["depthwise line"]
        == 1
    )
    assert kernels["depthwise"] == kernels["depthwise strided"] == 1, (
        "its windows stop at the edge instead"
    )
    assert kernels["same"] == 2


@pytest.mark.parametrize(
    "name", ["same", "strided", "stem", "pointwise", "grouped", "depthwise strided", "half"]
)
def test_on_this_machine(name):
    agree(group(Kind.CONV, CASES[name]), cpu(threads=2))


def gradient(pad, batch=2, size=(9, 16), channels=32, filters=33):
    """The gradient for the weights of a convolution by 3 by 3 whose maps have channels last."""
    x = param("x", Type(F32, (batch, *size, channels)))
    ct = param("ct", Type(F32, (batch, *size, filters)))
    ones = (1, 1)
    op = Conv(("CHWN", "IHWO", "HWNC"), ones, pad, pad, ones, ones)
    return Node.of(op, x, ct)


@pytest.mark.parametrize("pad", [(1, 1), (1, 0), (0, 1)], ids=str)
@pytest.mark.sampled(6)
def test_the_padded_copy_of_a_weight_gradient_is_turned_in_registers(pad):
    """Zeros and data are written by nests of their own, so that no load asks if it is inside."""
    anchor = gradient(pad)
    for target in TARGETS.values() if pad == (1, 1) else FEW:
        agree(group(Kind.CONV, anchor), target)
    made = table.lower(group(Kind.CONV, anchor), TARGETS["avx512"], "kernel")
    copies = [one.kernel for one in made.launches if one.kernel.name.startswith("kernel_pad")]
    (inside,) = (one for one in map(text_of, copies) if "shuffle" in one)
    assert "select" not in inside and "[ramp(" not in inside


@pytest.mark.parametrize(("columns", "apart"), [(32, True), (8, False)])
def test_a_large_result_that_would_be_stored_three_neighbours_at_a_time_is_transposed_after(
    columns: int, apart: bool
) -> None:
    """As the gradient for weights [out, in, rows, columns] is."""
    anchor = conv((16, 5, 5, 2), (3, 3, 2, columns), kind="input")
    made = group(Kind.CONV, anchor, build.transpose(anchor, (3, 0, 1, 2)))
    target = TARGETS["avx512"].with_facts(l2_bytes=16 << 10)
    launches = table.lower(made, target, "kernel").launches
    names = [launch.kernel.name for launch in launches]
    assert ("kernel_epilogue" in names) == apart
    agree(made, target)


@pytest.mark.parametrize("order", [(0, 3, 1, 2), (0, 1, 2, 3)])
def test_large_results_along_rows_or_columns_are_stored_at_once(order: tuple[int, ...]) -> None:
    anchor = conv((1, 40, 40, 3), (3, 3, 3, 32), kind="input")
    made = group(Kind.CONV, anchor, build.transpose(anchor, order))
    target = TARGETS["avx512"].with_facts(l2_bytes=16 << 10)
    launches = table.lower(made, target, "kernel").launches
    names = [launch.kernel.name for launch in launches]
    assert "kernel_epilogue" not in names
    agree(made, target)
