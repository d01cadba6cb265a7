"""Convolutions that a target's library computes: which become one call, which do not and why, and
that the call means what the group does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_harness import agree, lowered, param, run
from library_convolutions import (
    BF16,
    BOTH,
    DTYPES,
    F32,
    TARGET,
    conv,
    known,
    note,
    only,
    primitive,
    relu,
    residual,
    sums,
)

from xlac.debug.decisions import fused
from xlac.debug.explain.story import tell
from xlac.fusion.group import Kind
from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.convolution import Convolution
from xlac_sdk.libraries.product import PRODUCT, RELU, Product
from xlac_sdk.programs import portable
from xlac_sdk.programs.program import Call
from xlac_sdk.source import Origin

CALLED: dict[str, Callable[[DType], Node]] = {
    "plain": lambda d: conv(2, 4, 7, 9, dtype=d, bias=False),
    "a bias": lambda d: conv(2, 4, 7, 9, dtype=d, pad=1),
    "channels last": lambda d: conv(2, 7, 9, 4, dtype=d, pad=1, channels_last=True),
    "a bias and relu": lambda d: relu(conv(2, 7, 9, 4, dtype=d, pad=1, channels_last=True)),
    "strides, dilation, uneven padding": lambda d: conv(
        2, 4, 9, 11, dtype=d, stride=(2, 1), dilation=(1, 2), pad=((1, 2), (0, 3))
    ),
    "groups": lambda d: relu(conv(2, 8, 7, 7, dtype=d, groups=2)),
    "a weight": lambda d: relu(conv(2, 7, 7, 4, dtype=d, pad=1, channels_last=True, constant=True)),
    "a weight of groups": lambda d: conv(
        1, 7, 7, 8, dtype=d, groups=2, channels_last=True, constant=True
    ),
    "a line": lambda d: conv(2, 4, 9, dtype=d, pad=1),
    "a volume": lambda d: conv(1, 3, 4, 5, 6, dtype=d, kernel=2),
    "one place": lambda d: conv(2, 4, 6, 6, dtype=d, kernel=1, stride=2),
    "a turned result": lambda d: build.transpose(
        conv(2, 5, 7, 4, dtype=d, channels_last=True), (0, 3, 1, 2)
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", CALLED)
def test_one_call_computes_a_convolution_and_what_follows(what: str, dtype: DType) -> None:
    assert isinstance(only(agree(CALLED[what](dtype), target=TARGET)), Convolution)


ROUNDED: dict[str, Callable[[DType], Node]] = {
    "a residual": lambda d: residual(conv(2, 7, 7, 4, dtype=d, pad=1, channels_last=True)),
    "a bias, a residual and relu": lambda d: relu(
        residual(conv(2, 7, 7, 4, dtype=d, pad=1, channels_last=True))
    ),
    "gelu": lambda d: build.apply1(
        "gelu", conv(2, 7, 7, 4, dtype=d, channels_last=True), approximate="tanh"
    ),
}
"""In halves these skip a rounding; gelu's last bits are the library's own."""


@pytest.mark.parametrize("what", ROUNDED)
def test_other_rounding_takes_the_models_permission(what: str) -> None:
    for dtype in DTYPES:
        only(agree(ROUNDED[what](dtype), target=TARGET, precision="fast"))
    assert "precision: fast" in note(ROUNDED[what](BF16))


def test_residuals_in_f32_need_no_permission() -> None:
    found = only(agree(relu(residual(conv(2, 7, 7, 4, pad=1, channels_last=True))), target=TARGET))
    assert (
        found.addend is not None
        and found.bias is F32
        and found.activation == RELU
        and not found.fast
    )


def test_a_bias_may_be_f32_beside_halves() -> None:
    """As folded normalisation leaves it; a matrix may not."""
    found = only(agree(build.cast(relu(build.add(sums(), param("b", (6,)))), BF16), target=TARGET))
    assert found.bias is F32 and found.activation == RELU
    assert "is not bf16" in note(
        build.cast(build.add(sums(), param("c", (2, 3, 3, 6))), BF16), "fast"
    )


def test_what_is_worth_it_only_in_tf32_waits_for_permission() -> None:
    node = conv(2, 7, 7, 4, channels_last=True)
    assert "only precision: fast" in note(node, rounds=True)
    assert note(node, "fast", rounds=True) == "one call of DNN"


def test_filters_of_weights_have_their_channels_side_by_side() -> None:
    found = only(lowered(CALLED["a weight"](BF16), target=TARGET).program)
    assert found.kernel.extents == (6, 4, 3, 3) and found.kernel.strides == (36, 1, 12, 4)
    assert found.x.strides == (7 * 7 * 4, 1, 28, 4)


REFUSED: dict[str, tuple[Callable[[], Node], str]] = {
    "spread": (lambda: primitive(lhs_dilation=(2, 2)), "neither dilated inputs"),
    "cropped": (lambda: primitive(low=(-1, 0)), "no negative padding"),
    "sigmoid": (lambda: build.apply1("sigmoid", conv(1, 4, 5, 5)), "no epilogue for"),
    "a number for each row": (
        lambda: build.add(
            conv(1, 5, 5, 4, channels_last=True, bias=False), param("d", (1, 3, 3, 1))
        ),
        "neither one number",
    ),
    "a scale": (
        lambda: build.mul(conv(1, 4, 5, 5, bias=False), 0.3),
        "cannot scale the result of a convolution",
    ),
    "two residuals": (lambda: residual(residual(conv(1, 4, 5, 5)), "d"), "one matrix and one row"),
    "relu, channels first": (
        lambda: relu(conv(1, 4, 5, 5, bias=False)),
        "channels are not contiguous",
    ),
    "gelu, channels first": (
        lambda: build.apply1("gelu", conv(1, 4, 5, 5), approximate="tanh"),
        "channels are not contiguous",
    ),
    "a residual of a turned result": (
        lambda: residual(
            build.transpose(conv(1, 5, 5, 4, channels_last=True, bias=False), (0, 3, 1, 2))
        ),
        "channels are not contiguous",
    ),
    "a part": (
        lambda: conv(1, 5, 5, 4, channels_last=True, of=param("whole", (1, 5, 9, 4))),
        "a slice of a buffer",
    ),
    "integers": (lambda: primitive(DType.I8), "is not used for"),
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.sampled(2)
def test_what_the_library_cannot_say_is_generated(what: str) -> None:
    made, why = REFUSED[what]
    assert why in note(made(), "fast")
    assert not any(isinstance(step, Call) for step in agree(made(), target=TARGET).steps)


def test_few_channels_and_small_sums_are_generated() -> None:
    narrow = replace(TARGET, convolutions=frozenset({replace(known(F32), least=8)}))
    small = replace(TARGET, convolutions=frozenset({replace(known(F32), flops=1 << 30)}))
    for target, why in ((narrow, "4 channels and 6 filters"), (small, "flops are fewer")):
        made = lowered(conv(1, 4, 7, 7), target=target)
        (group,) = (g for g in made.partition.groups if g.kind is Kind.CONV)
        assert why in made.schedules(group).note


def test_sizes_may_be_open() -> None:
    batch, side = symbol("batch", 0, 6, 4), symbol("side", 3, 9, 7)
    node = relu(conv(batch, side, side, 4, pad=1, channels_last=True))
    for sizes in ({"batch": 4, "side": 7}, {"batch": 0, "side": 3}, {"batch": 1, "side": 9}):
        program = agree(node, target=TARGET, sizes=sizes)
    assert only(program).x.extents[0] == batch


def test_not_a_number_passes_through_relu() -> None:
    feeds = {
        "x": np.ones((1, 4, 4, 2), np.float32),
        "w": np.ones((6, 2, 3, 3), np.float32),
        "b": np.zeros(6, np.float32),
    }
    feeds["x"][0, 0, 0, 0], feeds["b"][1], feeds["b"][2] = np.nan, np.inf, -np.inf
    found = run(lowered(relu(conv(1, 4, 4, 2, channels_last=True)), target=TARGET).program, feeds)[
        "o0"
    ]
    assert np.isnan(found[0, 0, 0]).all()
    np.testing.assert_array_equal(found[0, 1, 1], [18, np.inf, 0, 18, 18, 18])


def test_a_convolution_survives_in_files(tmp_path: Path) -> None:
    program = lowered(CALLED["a weight"](F32), target=TARGET).program
    portable.write(tmp_path, program, TARGET)
    read, target = portable.read(tmp_path)
    assert target == TARGET and only(read) == only(program)


def test_explain_and_inspect_tell_what_is_called_and_why_not() -> None:
    """Of one tap, both libraries say why not."""
    called = lowered(Node(*_named(relu(conv(2, 7, 7, 4, channels_last=True)))), target=TARGET)
    assert "one call of DNN (max)" in tell(
        called, called.model.graph
    ) and "conv: one call of DNN" in fused(called)
    small = replace(
        BOTH,
        **{
            kind: frozenset(replace(k, flops=1 << 40) for k in getattr(BOTH, kind))
            for kind in ("products", "convolutions")
        },
    )
    made = lowered(Node(*_named(conv(2, 5, 5, 4, kernel=1, channels_last=True))), target=small)
    for told in (tell(made, made.model.graph), fused(made)):
        assert (
            "not by a library: 2,400 flops are fewer" in told
            and "which BLAS is taken; 2,400 flops" in told
            and "which DNN is taken" in told
        )


def _named(node: Node) -> tuple[Any, ...]:
    return node.op, node.inputs, node.types, Origin("y")


TAPS: dict[str, tuple[Callable[[DType], Node], tuple[int, int, int, int]]] = {
    "channels last": (
        lambda d: relu(conv(2, 5, 6, 4, dtype=d, kernel=1, channels_last=True)),
        (1, 60, 6, 4),
    ),
    "a weight": (
        lambda d: conv(2, 5, 6, 4, dtype=d, kernel=1, channels_last=True, constant=True),
        (1, 60, 6, 4),
    ),
    "channels first": (lambda d: conv(3, 4, 5, 6, dtype=d, kernel=1, bias=False), (3, 6, 30, 4)),
    "one image": (lambda d: conv(1, 4, 5, 6, dtype=d, kernel=1, bias=False), (1, 6, 30, 4)),
    "a line": (lambda d: conv(2, 9, 4, dtype=d, kernel=1, channels_last=True), (1, 18, 6, 4)),
}
"""Each with its count, rows, columns and depth: of channels first, filters are rows and an image is
one of a batch.
"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", TAPS)
def test_convolutions_of_one_tap_are_products(what: str, dtype: DType) -> None:
    made, (count, rows, columns, depth) = TAPS[what]
    product = only(agree(made(dtype), target=BOTH, precision="fast"), PRODUCT)
    assert isinstance(product, Product)
    assert (product.count, product.rows, product.columns, product.depth) == (
        count,
        rows,
        columns,
        depth,
    )


def test_what_is_no_product_is_a_convolution() -> None:
    """Windows that leave x, groups, and a bias that runs along rows."""
    for node in (
        conv(1, 4, 6, 6, kernel=1, pad=1),
        conv(1, 4, 6, 6, kernel=1, groups=2),
        conv(3, 4, 5, 6, kernel=1),
    ):
        only(agree(node, target=BOTH))
