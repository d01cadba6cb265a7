"""Cases of element-wise operators."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tflite_case import Case, case, const, q, random, x
from tflite_writer import Tensor


def cases() -> Iterator[Case]:
    """The cases."""
    yield from _arithmetic()
    yield from _activations()


def _arithmetic() -> Iterator[Case]:
    """Long because it is a list of cases."""
    for name in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "NEG", "ROUND", "SIN", "SQUARE", "SIGN"):
        yield case(f"{name}", name, x(3, 5))
    for name in ("LOG", "RSQRT", "SQRT"):
        yield case(f"{name}", name, x(3, 5), low=0.1, high=4.0)
    for name in ("ABS", "NEG", "SIGN"):
        if name != "SIGN":
            yield case(f"{name}_i32", name, x(3, 5, dtype="i32"), out=Tensor("i32"), low=-9, high=9)
    for name, table in (
        ("ADD", "AddOptions"),
        ("SUB", "SubOptions"),
        ("MUL", "MulOptions"),
        ("DIV", "DivOptions"),
    ):
        for active in range(4) if name != "DIV" else (0, 1, 3):
            yield case(
                f"{name}_{active}",
                name,
                x(2, 3, 4),
                x(4),
                table=table,
                fused_activation_function=active,
            )
        yield case(
            f"{name}_i32",
            name,
            x(2, 3, dtype="i32"),
            x(2, 1, dtype="i32"),
            out=Tensor("i32"),
            table=table,
            low=1,
            high=9,
            fused_activation_function=0,
        )
    for dtype, zero in (("i8", 3), ("u8", 120)):
        for name, table in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")):
            for active in (0, 1, 3):
                yield case(
                    f"{name}_{dtype}_{active}",
                    name,
                    q(5, 7, dtype=dtype, zero=zero),
                    q(5, 7, dtype=dtype, scale=0.0313, zero=-zero if dtype == "i8" else zero),
                    out=q(dtype=dtype, scale=0.0631, zero=zero),
                    table=table,
                    fused_activation_function=active,
                )
    for name in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "POW", "FLOOR_DIV", "FLOOR_MOD"):
        positive = 0.2 if name == "POW" else -3.0
        yield case(name, name, x(2, 5), x(5), low=positive)
        if name not in ("POW", "SQUARED_DIFFERENCE"):
            yield case(
                f"{name}_i32",
                name,
                x(2, 5, dtype="i32"),
                random(3, 5, dtype="i32"),
                out=Tensor("i32"),
                low=-900,
                high=900,
            )
    tenths = const(np.arange(1, 10) / np.float32(10), "f32")  # quotients that round to integers
    yield case("FLOOR_DIV_tenths", "FLOOR_DIV", const(tenths.value[:, None] * 3, "f32"), tenths)
    least = const([-(2**31), 2**31 - 1, -7], "i32")
    divisors = const([[3], [-1], [-5]], "i32")
    yield case("FLOOR_DIV_i32_ends", "FLOOR_DIV", least, divisors, out=Tensor("i32"))
    yield case("ATAN2", "ATAN2", x(6, 5), x(6, 5))
    for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield case(f"{name}_i32", name, x(4, 5, dtype="i32"), x(5, dtype="i32"), out=Tensor("bool"))
        yield case(f"{name}_f32", name, x(4, 5), x(5), out=Tensor("bool"))
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        yield case(name, name, x(8, dtype="bool"), x(8, dtype="bool"), out=Tensor("bool"))
    yield case(
        "BITWISE_XOR",
        "BITWISE_XOR",
        x(9, dtype="i32"),
        x(9, dtype="i32"),
        out=Tensor("i32"),
        low=-99,
        high=99,
    )
    yield case(
        "RIGHT_SHIFT",
        "RIGHT_SHIFT",
        x(9, dtype="i32"),
        const(np.arange(9)),
        out=Tensor("i32"),
        low=-9999,
        high=9999,
    )
    yield case("BITCAST", "BITCAST", x(3, 4), out=Tensor("i32"))
    yield case("LOGICAL_NOT", "LOGICAL_NOT", x(8, dtype="bool"), out=Tensor("bool"))
    yield case("ADD_N", "ADD_N", x(3, 4), x(3, 4), x(3, 4))
    yield case("SELECT", "SELECT", x(3, dtype="bool"), x(3, 4), x(3, 4))
    yield case("SELECT_V2", "SELECT_V2", x(3, 1, dtype="bool"), x(4), x(3, 4))
    for to in ("i32", "i64", "i8", "bool"):
        yield case(f"CAST_{to}", "CAST", x(3, 7), out=Tensor(to))
    yield case("CAST_i32_f32", "CAST", x(3, 7, dtype="i32"), low=-99, high=99)


def _activations() -> Iterator[Case]:
    """Long because it is a list of cases."""
    for name in (
        "LOGISTIC",
        "TANH",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RELU_0_TO_1",
        "ELU",
        "HARD_SWISH",
        "LOG_SOFTMAX",
    ):
        yield case(name, name, x(3, 9), low=-7, high=8)
    for name, scale, zero in (
        ("LOGISTIC", 1 / 256, -128),
        ("TANH", 1 / 128, 0),
        ("HARD_SWISH", 0.0307, -100),
        ("RELU", 0.0437, -128),
        ("RELU6", 0.0237, -128),
    ):
        yield case(f"{name}_i8", name, q(9, 29, scale=0.06, zero=4), out=q(scale=scale, zero=zero))
    yield case("LEAKY_RELU", "LEAKY_RELU", x(3, 9), table="LeakyReluOptions", alpha=0.3)
    yield case(
        "LEAKY_RELU_i8",
        "LEAKY_RELU",
        q(9, 29),
        out=q(scale=0.0431, zero=-3),
        table="LeakyReluOptions",
        alpha=0.3,
    )
    yield case("PRELU", "PRELU", x(2, 3, 4, 5), random(1, 1, 1, 5))
    for approximate in (False, True):
        yield case(
            f"GELU_{approximate}", "GELU", x(3, 9), table="GeluOptions", approximate=approximate
        )
    for beta in (1.0, 0.5):
        yield case(f"SOFTMAX_{beta}", "SOFTMAX", x(3, 9), table="SoftmaxOptions", beta=beta)
    yield case(
        "SOFTMAX_i8",
        "SOFTMAX",
        q(9, 17),
        out=q(scale=1 / 256, zero=-128),
        table="SoftmaxOptions",
        beta=1.0,
    )
    yield case(
        "L2_NORMALIZATION",
        "L2_NORMALIZATION",
        x(3, 9),
        table="L2NormOptions",
        fused_activation_function=0,
    )
    yield case(
        "LOCAL_RESPONSE_NORMALIZATION",
        "LOCAL_RESPONSE_NORMALIZATION",
        x(1, 3, 4, 9),
        table="LocalResponseNormalizationOptions",
        radius=2,
        bias=1.0,
        alpha=0.4,
        beta=0.6,
    )
