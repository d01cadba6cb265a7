"""Cases of convolutions, pools and products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tflite_case import Case, case, const, q, random, x


def cases() -> Iterator[Case]:
    """The cases."""
    yield from _convolutions()
    yield from _pools()
    yield from _products()


def _convolutions() -> Iterator[Case]:
    """Long because it is a list of cases."""
    for padding in (0, 1):
        for stride, dilation in ((1, 1), (2, 1), (1, 2)):
            given: dict[str, Any] = {
                "padding": padding,
                "stride_w": stride,
                "stride_h": stride,
                "fused_activation_function": 3 * (stride == 2),
                "dilation_w_factor": dilation,
                "dilation_h_factor": dilation,
            }
            name = f"{padding}_{stride}_{dilation}"
            yield case(
                f"CONV_2D_{name}",
                "CONV_2D",
                x(2, 9, 8, 3),
                random(1, 5, 3, 2, 3),
                random(2, 5),
                table="Conv2DOptions",
                **given,
            )
            yield case(
                f"DEPTHWISE_{name}",
                "DEPTHWISE_CONV_2D",
                x(2, 9, 8, 3),
                random(1, 1, 3, 2, 6),
                random(2, 6),
                table="DepthwiseConv2DOptions",
                depth_multiplier=2,
                **given,
            )
            scales = (0.0103 + 0.0041 * np.arange(6)).tolist()
            bias = {"scale": [s * 0.0517 for s in scales], "zero": 0}
            yield case(
                f"CONV_2D_i8_{name}",
                "CONV_2D",
                q(2, 9, 8, 3, zero=5),
                random(1, 6, 3, 2, 3, dtype="i8", scale=scales),
                random(2, 6, dtype="i32", **bias),
                out=q(scale=0.0813, zero=-7),
                table="Conv2DOptions",
                **given,
            )
            yield case(
                f"DEPTHWISE_i8_{name}",
                "DEPTHWISE_CONV_2D",
                q(2, 9, 8, 3, zero=5),
                random(1, 1, 3, 2, 6, dtype="i8", scale=scales, axis=3),
                random(2, 6, dtype="i32", **bias),
                out=q(scale=0.0511, zero=-7),
                table="DepthwiseConv2DOptions",
                depth_multiplier=2,
                **given,
            )
    plain: dict[str, Any] = {
        "padding": 1,
        "stride_w": 1,
        "stride_h": 1,
        "fused_activation_function": 0,
    }
    yield case(
        "CONV_2D_groups",
        "CONV_2D",
        x(1, 6, 6, 8),
        random(1, 6, 3, 3, 4),
        random(2, 6),
        table="Conv2DOptions",
        **plain,
    )
    yield case(
        "CONV_2D_u8",
        "CONV_2D",
        q(1, 9, 8, 3, dtype="u8", zero=100),
        random(1, 6, 3, 2, 3, dtype="u8", scale=0.02, zero=130),
        random(2, 6, dtype="i32", scale=0.001),
        out=q(dtype="u8", scale=0.1, zero=120),
        table="Conv2DOptions",
        **plain,
    )
    yield case(
        "CONV_2D_i16",
        "CONV_2D",
        q(1, 9, 8, 3, dtype="i16", scale=0.000313),
        random(1, 6, 3, 2, 3, dtype="i8", scale=0.02),
        random(2, 6, dtype="i64", scale=0.00000626),
        out=q(dtype="i16", scale=0.000517),
        table="Conv2DOptions",
        **plain,
    )
    for padding in (0, 1):
        three = {
            "padding": padding,
            "stride_d": 1,
            "stride_h": 2,
            "stride_w": 1,
            "fused_activation_function": 1,
        }
        yield case(
            f"CONV_3D_{padding}",
            "CONV_3D",
            x(1, 5, 7, 6, 2),
            random(1, 2, 3, 3, 2, 4),
            random(2, 4),
            table="Conv3DOptions",
            **three,
        )
        wide = (1, 5, 8, 6, 4) if padding == 0 else (1, 7, 9, 7, 4)
        yield case(
            f"CONV_3D_TRANSPOSE_{padding}",
            "CONV_3D_TRANSPOSE",
            const(wide),
            random(1, 3, 3, 2, 4, 2),
            x(1, 5, 4, 6, 2),
            random(2, 4),
            table="Conv3DOptions",
            **three,
        )
        size = (1, 10, 8, 5) if padding == 0 else (1, 11, 9, 5)
        both = {"padding": padding, "stride_w": 2, "stride_h": 2, "fused_activation_function": 0}
        yield case(
            f"TRANSPOSE_CONV_{padding}",
            "TRANSPOSE_CONV",
            const(size),
            random(1, 5, 3, 3, 2),
            x(1, 5, 4, 2),
            random(2, 5),
            table="TransposeConvOptions",
            **both,
        )


def _pools() -> Iterator[Case]:
    for padding in (0, 1):
        given: dict[str, Any] = {
            "padding": padding,
            "stride_w": 2,
            "stride_h": 1,
            "filter_width": 3,
            "filter_height": 2,
            "fused_activation_function": padding,
        }
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
            yield case(f"{name}_{padding}", name, x(2, 6, 7, 3), table="Pool2DOptions", **given)
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            for dtype in ("i8", "u8"):
                zero = 10 if dtype == "i8" else 128
                yield case(
                    f"{name}_{dtype}_{padding}",
                    name,
                    q(2, 6, 7, 3, dtype=dtype, zero=zero),
                    out=q(dtype=dtype, zero=zero),
                    table="Pool2DOptions",
                    **given,
                )


def _products() -> Iterator[Case]:
    """Long because it is a list of cases."""
    for keep in (False, True):
        given = {
            "table": "FullyConnectedOptions",
            "fused_activation_function": 1,
            "keep_num_dims": keep,
        }
        yield case(
            f"FULLY_CONNECTED_{keep}",
            "FULLY_CONNECTED",
            x(2, 3, 8),
            random(1, 5, 8),
            random(2, 5),
            **given,
        )
    yield case(
        "FULLY_CONNECTED_without_bias",
        "FULLY_CONNECTED",
        x(4, 8),
        random(1, 5, 8),
        None,
        table="FullyConnectedOptions",
        fused_activation_function=0,
    )
    yield case(
        "FULLY_CONNECTED_i8",
        "FULLY_CONNECTED",
        q(6, 32, zero=7),
        random(1, 9, 32, dtype="i8", scale=0.0103),
        random(2, 9, dtype="i32", scale=0.00053251),
        out=q(scale=0.1037, zero=3),
        table="FullyConnectedOptions",
        fused_activation_function=1,
    )
    yield case(
        "FULLY_CONNECTED_dynamic",
        "FULLY_CONNECTED",
        x(6, 32),
        random(1, 9, 32, dtype="i8", scale=0.01),
        random(2, 9),
        table="FullyConnectedOptions",
        fused_activation_function=0,
    )
    for adj_x in (False, True):
        for adj_y in (False, True):
            a = (2, 1, 5, 3) if adj_x else (2, 1, 3, 5)
            b = (4, 6, 5) if adj_y else (4, 5, 6)
            yield case(
                f"BATCH_MATMUL_{adj_x}_{adj_y}",
                "BATCH_MATMUL",
                x(*a),
                x(*b),
                table="BatchMatMulOptions",
                adj_x=adj_x,
                adj_y=adj_y,
            )
    yield case(
        "BATCH_MATMUL_i8",
        "BATCH_MATMUL",
        q(2, 3, 16, zero=4),
        q(2, 16, 5, scale=0.0217, zero=-9),
        out=q(scale=0.1, zero=2),
        table="BatchMatMulOptions",
        adj_x=False,
    )
    yield case(
        "EMBEDDING_LOOKUP", "EMBEDDING_LOOKUP", x(4, dtype="i32"), random(1, 9, 5), low=0, high=8
    )
