"""Convolutions of every shape: read where they lie, depthwise, and shared by blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from contraction_harness import agree, group, of_sample, param, program, values
from gpu_products import CORES, PLAIN, D, kernels

from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.target import Target


def test_convolutions(request: pytest.FixtureRequest) -> None:
    """Half of the samples, with --all every one, as on the stand-in for a GPU."""
    for number, sample in enumerate(Conv.samples()):
        if sample.inputs[0].dtype is D.F32 and (
            number % 4 < 2 or request.config.getoption("--all")
        ):
            agree(
                group(
                    Kind.CONV,
                    of_sample("conv", sample, ("input", "weight") if number % 2 else ("input",)),
                ),
                PLAIN,
            )


def test_depthwise_convolutions() -> None:
    """A thread for a few channels; where windows leave x, nothing is read."""
    for kind, channels, step, dtype in (
        ("weight", 8, 1, D.F32),
        ("input", 6, 2, D.F32),
        ("weight", 5, 1, D.BF16),
        ("weight", 16, 2, D.F16),
    ):
        x, kernel = (
            param("x", Type(dtype, (2, 7, 6, channels))),
            param("k", Type(dtype, (channels, 1, 3, 3)), kind),
        )
        conv = Conv(
            ("NHWC", "OIHW", "NHWC"), (step, step), (1, 1), (1, 0), (1, 1), (1, 2), channels
        )
        anchor = Node.of(conv, x, kernel)
        made = group(Kind.CONV, anchor, build.maximum(anchor, 0.0))
        agree(made, PLAIN)
        weights = {"k": values(made)["k"]} if kind == "weight" else {}
        assert all(
            k.parallel is None
            for k in program(made, PLAIN, weights).kernels
            if not k.name.endswith("_pack")
        )


NHWC, NCHW = ("NHWC", "OIHW", "NHWC"), ("NCHW", "OIHW", "NCHW")


@pytest.mark.parametrize("target", [PLAIN, CORES], ids=["plain", "cores"])
@pytest.mark.parametrize(
    ("layout", "steps", "low", "high", "spread", "groups"),
    [
        (NHWC, (1, 1), (1, 1), (1, 1), (1, 1), 1),
        (NHWC, (2, 1), (1, 2), (0, 1), (1, 2), 1),
        (NCHW, (1, 2), (2, 0), (1, 1), (2, 1), 1),
        (NHWC, (1, 1), (1, 1), (1, 1), (1, 1), 2),
        (NHWC, (1, 1), (-1, 1), (1, -1), (1, 1), 1),
    ],
)
@pytest.mark.sampled(4)
def test_windows_that_leave_x_read_zeros_where_they_do(
    target: Target,
    layout: tuple[str, str, str],
    steps: tuple[int, int],
    low: tuple[int, int],
    high: tuple[int, int],
    spread: tuple[int, int],
    groups: int,
) -> None:
    """Without a copy of x and its padding, in one launch."""
    dtype, channels = (D.F32, 6) if target is PLAIN else (D.BF16, 16)
    shape = (1, 5, 6, channels * groups) if layout is NHWC else (1, channels * groups, 5, 6)
    x, kernel = (
        param("x", Type(dtype, shape)),
        param("k", Type(dtype, (9 * groups, channels, 3, 2)), "weight"),
    )
    anchor = Node.of(Conv(layout, steps, low, high, (1, 1), spread, groups), x, kernel)
    made = group(Kind.CONV, anchor, build.maximum(anchor, 0.0))
    agree(made, target)
    assert not any(
        "_pad" in k.name for k in program(made, target, {"k": values(made)["k"]}).kernels
    )


def test_blocks_share_the_window_of_a_convolution() -> None:
    x, kernel = param("x", Type(D.F32, (1, 4, 4, 64))), param("k", Type(D.F32, (4, 4, 64, 12)))
    made = group(
        Kind.CONV,
        Node.of(Conv(("NHWC", "HWIO", "NHWC"), (1, 1), (1, 1), (2, 2), (1, 1), (1, 1)), x, kernel),
    )
    target = replace(PLAIN, processors=20)
    names = [k.name for k in kernels(made, target)]
    assert any(name.endswith("_parts") for name in names) and not any(
        "_pad" in name for name in names
    )
    agree(made, target)
