"""Schedules of rows, such as softmax, over shapes and targets, against the graph's meaning."""

from __future__ import annotations

import pytest
from loops_harness import MASKED, SCALAR, check_group, graph_of, group_of, param

from xlac.codegen.lower import lower
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.arithmetic import Add, Max, Mul, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.exponential import Exp
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac_sdk.dtypes import DType


def softmax(x: Node, axis: int = -1) -> Node:
    return graph_of(build.apply("softmax", x, axis=axis)).outputs["o0"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shape", [(3, 1), (3, 5), (40, 10), (2, 3, 128), (5, 133), (2, 9000), (1, 40_000)], ids=str
)
def test_softmax_over_short_and_long_rows(shape: tuple[int, ...]) -> None:
    """From rows shorter than a vector to rows that do not fit the stack: then the output keeps the
    powers.
    """
    check_group(group_of(Kind.ROWS, softmax(param("x", shape))), rtol=1e-4)


@pytest.mark.parametrize("shape, axis", [((33, 70), 0), ((3, 17, 20), 1)], ids=str)
def test_softmax_over_columns(shape: tuple[int, ...], axis: int) -> None:
    check_group(group_of(Kind.REDUCE, softmax(param("x", shape), axis)), rtol=1e-4)


def test_rows_with_results_and_values_of_every_stage() -> None:
    x, y = param("x", (6, 50)), param("y", (50,))
    before = Node.of(Add(), x, Node.of(Broadcast((6, 50), (1,)), y))
    top = Node.of(Reduce((1,), "max"), before)
    power = Node.of(Exp(), Node.of(Sub(), before, Node.of(Broadcast((6, 50), (0,)), top)))
    total = Node.of(Reduce((1,), "add"), power)
    result = Node.of(Mul(), power, Node.of(Broadcast((6, 50), (0,)), Node.of(Max(), total, top)))
    group = group_of(
        Kind.ROWS,
        before,
        total,
        Node.of(Reshape((6, 1)), top),
        result,
        Node.of(Cast(DType.F16), result),
    )
    check_group(group, rtol=1e-4)


def test_powers_are_computed_once() -> None:
    (launch,) = lower(group_of(Kind.ROWS, softmax(param("x", (64, 256)))), SCALAR, "k").launches
    from xlac_sdk.kernel_ir.text import show

    assert show(launch.kernel).count("exp(") == 1


def test_kernels_say_what_they_cost_and_where_they_come_from() -> None:
    x = param("x", (64, 256))
    (launch,) = lower(group_of(Kind.ROWS, softmax(x)), MASKED, "k").launches
    assert launch.kernel.name == "k"
    assert launch.kernel.work.bytes == 2 * 64 * 256 * 4
    assert launch.kernel.parallel is not None
