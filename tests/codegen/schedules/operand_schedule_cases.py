"""Groups whose operands are copied, or could be, before they are multiplied: that is drawn at
random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from contraction_harness import TARGETS, conv, group
from gpu_schedule_cases import GPU
from schedule_draws import Drawn, dot, x

from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.view import Transpose
from xlac_sdk.dtypes import DType

AVX512, AVX2, SSE = TARGETS["avx512"], TARGETS["avx2"], TARGETS["sse"]


def halves() -> Group:
    """A left operand that is widened."""
    a, b = (x(n, *s, dtype=DType.F16) for n, s in (("a", (9, 12)), ("b", (12, 128))))
    return group(Kind.DOT, Node.of(Dot(contract_lhs=(1,), contract_rhs=(0,)), a, b))


def upright() -> Group:
    """A left operand whose sums cross more lines than the first cache has."""
    op = Dot(contract_lhs=(0,), contract_rhs=(0,))
    return group(Kind.DOT, Node.of(op, x("a", 16, 64), x("b", 16, 128)))


def spread(groups: int = 1) -> Callable[[], Group]:
    """A convolution over an input with zeros between its elements."""
    given = {"low": (1, 2), "high": (2, 1), "lhs_dilation": (2, 2), "groups": groups}
    kernel = (3, 3, 4 // groups, 6 if groups == 1 else 4)
    return lambda: group(Kind.CONV, conv((1, 4, 5, 4), kernel, **given))


def padded(layout: tuple[str, str, str]) -> Callable[[], Group]:
    shapes = (2, 3, 5, 6), (8, 3, 3, 3)
    if layout[0] == "NHWC":
        shapes = (2, 5, 6, 3), (3, 3, 3, 8)
    return lambda: group(Kind.CONV, conv(*shapes, pad=1, layout=layout))


def whole_maps() -> Group:
    """A gradient for weights: windows as large as maps, whose channels come last."""
    layout = ("CHWN", "IHWO", "HWNC")
    return group(Kind.CONV, conv((3, 9, 9, 2), (3, 8, 8, 4), layout=layout, kind="input"))


def three_loops() -> Group:
    """A left operand whose rows are three loops that do not merge."""
    turned = Node.of(Transpose((1, 0, 2, 3)), x("a", 4, 3, 5, 12))
    op = Dot(contract_lhs=(3,), contract_rhs=(0,))
    return group(Kind.DOT, Node.of(op, turned, x("b", 12, 40)))


def channels() -> Group:
    return group(Kind.CONV, conv((1, 5, 6, 12), (3, 3, 1, 12), pad=1, groups=12))


def maps_of_channels() -> Group:
    """A depthwise convolution whose rows of pixels are contiguous."""
    layout = ("NCHW", "OIHW", "NCHW")
    return group(Kind.CONV, conv((1, 6, 5, 7), (6, 1, 3, 3), pad=1, groups=6, layout=layout))


def three_by_three() -> Group:
    """A convolution that Winograd's algorithm computes too."""
    return group(Kind.CONV, conv((1, 5, 6, 8), (3, 3, 8, 8), pad=1))


def two_columns() -> Group:
    """A right operand whose own axes are two loops that do not merge."""
    turned = Node.of(Transpose((0, 2, 1)), x("b", 12, 5, 8))
    op = Dot(contract_lhs=(1,), contract_rhs=(0,))
    return group(Kind.DOT, Node.of(op, x("a", 9, 12), turned))


def columns_in_batches() -> Group:
    """The same in a batch, for rows of two loops."""
    turned = Node.of(Transpose((0, 1, 3, 2)), x("b", 2, 12, 5, 8))
    op = Dot(batch_lhs=(0,), batch_rhs=(0,), contract_lhs=(3,), contract_rhs=(1,))
    left = Node.of(Transpose((0, 2, 1, 3)), x("a", 2, 3, 4, 12))
    return group(Kind.DOT, Node.of(op, left, turned))


def gradient_of_three_by_three() -> Group:
    """The gradient for its weights, which Winograd's algorithm computes too."""
    return group(Kind.CONV, conv((8, 5, 6, 1), (5, 6, 1, 8), pad=1, kind="input"))


MAPS, LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")
OPERAND_CASES: dict[str, Drawn] = {
    "operands_half": Drawn(halves, AVX2, "dot_operands"),
    "operands_upright": Drawn(upright, AVX2.with_facts(l1_bytes=4 << 10), "dot_operands"),
    "operands_left": Drawn(dot(13, 40, 19), SSE, "dot_operands"),
    "input_padded": Drawn(padded(MAPS), AVX2, "conv_input"),
    "input_last": Drawn(padded(LAST), AVX512, "conv_input"),
    "input_spread": Drawn(spread(), AVX2, "conv_input"),
    "input_spread_channels": Drawn(spread(4), AVX512, "conv_input"),
    "input_channels": Drawn(channels, replace(AVX2, masked=True), "conv_input"),
    "input_turned": Drawn(whole_maps, AVX2, "conv_input"),
    "rows_dot": Drawn(three_loops, AVX2, "row_loops"),
    "rows_conv": Drawn(padded(MAPS), AVX2, "row_loops"),
    "rows_conv_last": Drawn(padded(LAST), AVX512, "row_loops"),
    "rows_gpu": Drawn(three_loops, GPU, "row_loops"),
    "rows_gpu_conv": Drawn(padded(LAST), GPU, "row_loops"),
    "algorithm_maps": Drawn(maps_of_channels, AVX512, "conv_algorithm"),
    "algorithm_last": Drawn(channels, AVX2, "conv_algorithm"),
    "algorithm_small": Drawn(channels, replace(AVX2, size=True), "conv_algorithm"),
    "algorithm_winograd": Drawn(three_by_three, AVX2, "conv_algorithm"),
    "algorithm_winograd_weights": Drawn(gradient_of_three_by_three, AVX2, "conv_algorithm"),
    "algorithm_gpu": Drawn(channels, GPU, "conv_algorithm"),
    "columns_dot": Drawn(two_columns, AVX2, "column_loop"),
    "columns_batches": Drawn(columns_in_batches, AVX512, "column_loop"),
    "columns_gpu": Drawn(two_columns, GPU, "column_loop"),
    "input_gpu": Drawn(padded(LAST), GPU, "conv_input"),
    "input_gpu_channels": Drawn(channels, GPU, "conv_input"),
}
