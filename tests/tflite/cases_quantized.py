"""Cases of integers whose scales are as odd as a converter's, and of recurrent layers of int8,
whose states are variables.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cases_lstm import quantized_lstms
from tflite_case import Case, case, const, q, random
from tflite_writer import Graph, Tensor


def cases() -> Iterator[Case]:
    """The cases; recurrent layers are called three times."""
    for seed in range(3):
        yield from _odd_scales(np.random.default_rng(seed), seed)
    for name in ("LOGISTIC", "TANH"):
        for scale in (2.0**-12, 2.0**-11, 2.0**-10, 3e-4, 0.0017, 1e-5):
            every = q(1 << 12, dtype="i16", scale=scale)
            yield case(f"{name}_i16_{scale:.5f}", name, every, out=q(dtype="i16", scale=2.0**-15))
    yield from _tables()
    yield from _stored()
    yield from _moved()
    for zero, shape in ((-113, (2, 256)), (3, (40, 7)), (-128, (60, 1)), (127, (2, 3000))):
        x = q(*shape, scale=0.03, zero=zero)
        name, out = "L2_NORMALIZATION", q(scale=1 / 128)
        yield case(f"{name}_i8{zero}", name, x, out=out, table="L2NormOptions")
    yield from quantized_lstms()
    for rank in (1, 2):
        yield _svdf(rank)


def _tables() -> Iterator[Case]:
    """Functions of 16 bits by tables, and roots, which are of numbers that are not negative."""
    for scale in (3e-4, 4e-5):
        x = q(1 << 12, dtype="i16", scale=scale)
        yield case(f"EXP_i16_{scale}", "EXP", x, out=q(dtype="i16", scale=1e-4))
        for near in (False, True):
            out = q(dtype="i16", scale=scale)
            options = {"table": "GeluOptions", "approximate": near}
            yield case(f"GELU_i16_{near}_{scale}", "GELU", x, out=out, **options)
        for name, to in (("LOG", 3e-4), ("SQRT", 1e-4), ("RSQRT", 1e-3)):
            positive, out = (q(1 << 12, dtype="i16", scale=s) for s in (scale, to))
            steps = [("ABS", {}, [0], [1]), (name, {}, [1], [2])]
            yield Case(f"{name}_i16_{scale}", Graph([x, positive, out], steps, [0], [2]))
        for beta, depth in ((1.0, 1024), (0.7, 3)):
            x, out = q(4, depth, dtype="i16", scale=scale), q(dtype="i16", scale=2.0**-15)
            options = {"table": "SoftmaxOptions", "beta": beta}
            yield case(f"SOFTMAX_i16_{depth}_{scale}", "SOFTMAX", x, out=out, **options)
        yield case(
            f"SQRT_i8_{scale}", "SQRT", q(9, 67, zero=-128), out=q(scale=0.004 + scale, zero=-100)
        )


def _stored() -> Iterator[Case]:
    """Operators whose kernels compute on integers as they are stored, with scales that differ."""
    for dtype, zero in (("i8", -9), ("u8", 140), ("i16", 0)):
        small = 1 / 200 if dtype == "i16" else 1.0
        every = 256 if dtype != "i16" else 1 << 10
        x = q(every, dtype=dtype, scale=0.031 * small, zero=zero)
        y = q(5, 1, dtype=dtype, scale=0.0473 * small, zero=zero + (dtype != "i16"))
        out = q(dtype=dtype, scale=0.04 * small, zero=zero)
        if dtype != "u8":
            yield case(f"NEG_{dtype}", "NEG", x, out=out)
            yield case(f"ABS_{dtype}", "ABS", x, out=out)
            divisor = random(7, 5, 1, dtype="i8", scale=0.02, zero=3)
            values = np.where(divisor.value == 0, 5, divisor.value)
            taken = const(values, dtype, scale=0.02 * small, zero=zero)
            for name in ("FLOOR_DIV", "FLOOR_MOD"):
                yield case(f"{name}_{dtype}", name, x, taken, out=out)
            product = q(40, 5, dtype=dtype, scale=0.04 * small, zero=zero)
            settings = {"table": "ReducerOptions", "keep_dims": dtype == "i8"}
            to = q(dtype=dtype, scale=0.9 * small, zero=zero)
            yield case(f"PROD_{dtype}", "REDUCE_PROD", product, const([1]), out=to, **settings)
        for name in ("MAXIMUM", "MINIMUM"):
            yield case(f"{name}_{dtype}", name, x, y, out=out)
        for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
            yield case(f"{name}_{dtype}", name, x, y, out=Tensor("bool"))
        total = q(7, 40, dtype=dtype, scale=0.031 * small, zero=zero)
        for alike in (False, True):
            to = q(dtype=dtype, scale=total.scale * (1 if alike else 9), zero=zero)
            settings = {"table": "ReducerOptions", "keep_dims": alike}
            yield case(f"SUM_{dtype}_{alike}", "SUM", total, const([1]), out=to, **settings)


def _moved() -> Iterator[Case]:
    """Integers that are moved, pooled, joined or resized between tensors whose scales differ."""
    for dtype, zero in (("i8", -9), ("u8", 140), ("i16", 0)):
        small = 1 / 200 if dtype == "i16" else 1.0
        x = q(2, 7, 6, 3, dtype=dtype, scale=0.031 * small, zero=zero)
        y = q(2, 7, 6, 3, dtype=dtype, scale=0.047 * small, zero=zero)
        out = q(dtype=dtype, scale=0.02 * small, zero=zero)
        window = {"table": "Pool2DOptions", "filter_width": 3, "filter_height": 2}
        for active in (0, 3):
            options = window | {"stride_w": 1, "stride_h": 2, "fused_activation_function": active}
            for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
                yield case(f"{name}_moved_{dtype}_{active}", name, x, out=out, **options)
        for name in ("SELECT", "SELECT_V2"):
            test = Tensor("bool", (2, 7, 6, 3))
            yield case(f"{name}_moved_{dtype}", name, test, x, y, out=out)
        if dtype != "i8":
            joined = {"table": "ConcatenationOptions", "axis": 1}
            yield case(f"CONCATENATION_moved_{dtype}", "CONCATENATION", x, y, out=out, **joined)
    rows = q(40, 17, dtype="u8", scale=0.01, zero=131)
    to = q(dtype="u8", scale=1 / 128, zero=128)
    yield case("L2_NORMALIZATION_moved", "L2_NORMALIZATION", rows, out=to, table="L2NormOptions")
    for align, half in ((False, False), (True, False), (False, True)):
        image, to = (q(*shape, dtype="u8", scale=0.03, zero=9) for shape in ((2, 5, 7, 3), ()))
        options = {"table": "ResizeBilinearOptions", "align_corners": align}
        options |= {"half_pixel_centers": half}
        name = "RESIZE_BILINEAR"
        yield case(f"{name}_moved_{align}_{half}", name, image, const([9, 13]), out=to, **options)
    x = q(50, 64, dtype="i16", scale=3e-4)
    weight = random(5, 6, 64, dtype="i8", scale=0.011)
    bias = const(np.arange(-900, 900, 300), "i64", scale=3e-4 * 0.011)
    table = "FullyConnectedOptions"
    out = q(dtype="i16", scale=1.3e-3)
    yield case("FULLY_CONNECTED_moved", "FULLY_CONNECTED", x, weight, bias, out=out, table=table)


def _odd_scales(source: np.random.Generator, seed: int) -> Iterator[Case]:
    """An operator of each way to bring integers to another scale."""

    def scale() -> float:
        return float(np.exp(source.uniform(np.log(0.003), np.log(0.2))))

    def operand(*shape: int, dtype: str = "i8") -> Tensor:
        zero = int(source.integers(-128, 128)) if dtype == "i8" else 0
        return q(*shape, dtype=dtype, scale=scale() / (200 if dtype == "i16" else 1), zero=zero)

    for name in ("ADD", "SUB", "MUL"):
        table = f"{name.title()}Options"
        for dtype in ("i8", "i16"):
            x, y = operand(9, 67, dtype=dtype), operand(9, 67, dtype=dtype)
            largest = x.scale * y.scale * 90 if name == "MUL" else max(x.scale, y.scale)
            largest *= 200 if (name, dtype) == ("MUL", "i16") else 1
            out = q(dtype=dtype, scale=largest * source.uniform(0.7, 1.5), zero=0)
            options = {} if name == "MUL" else {"pot_scale_int16": False}
            yield case(f"{name}_odd_{dtype}_{seed}", name, x, y, out=out, table=table, **options)
    x = operand(3, 9, 67)
    slopes = random(seed, 1, 1, 67, dtype="i8", scale=scale() / 9, zero=seed * 3)
    out = q(scale=x.scale * source.uniform(0.2, 2), zero=int(source.integers(-90, 90)))
    yield case(f"PRELU_odd_{seed}", "PRELU", x, slopes, out=out)
    x, y = operand(9, 67), operand(9, 67)
    out = q(scale=max(x.scale, y.scale) ** 2 * 90, zero=seed - 128)
    yield case(f"SQUARED_DIFFERENCE_odd_{seed}", "SQUARED_DIFFERENCE", x, y, out=out)
    x = operand(9, 67)
    for name in ("HARD_SWISH", "QUANTIZE", "RELU6"):
        out = q(scale=x.scale * source.uniform(0.4, 1), zero=int(source.integers(-128, 90)))
        yield case(f"{name}_odd_{seed}", name, x, out=out)
    x = q(9, 67, scale=scale(), zero=-128)  # no kernel takes the root of a negative number
    out = q(scale=0.02 / np.sqrt(x.scale), zero=-120)
    yield case(f"RSQRT_odd_{seed}", "RSQRT", x, out=out)
    x = operand(2, 5, 7 - seed, 67)
    out = q(scale=x.scale * source.uniform(0.2, 1), zero=-20)
    options = {"table": "ReducerOptions", "keep_dims": bool(seed % 2)}
    yield case(f"MEAN_odd_{seed}", "MEAN", x, const([1, 2]), out=out, **options)
    x = operand(6, 512)
    by_row = [scale() / 20 for _ in range(32)]
    weight = random(seed, 32, 512, dtype="i8", scale=by_row if seed else by_row[0])
    out = q(scale=x.scale * 0.003 * 127 * 22, zero=5)
    options = {"table": "FullyConnectedOptions"}
    yield case(
        f"FULLY_CONNECTED_odd_{seed}", "FULLY_CONNECTED", x, weight, None, out=out, **options
    )


def _svdf(rank: int) -> Case:
    batch, inputs, filters, memory = 2, 3, 6, 5
    random_times = np.random.default_rng(2).integers(-3000, 3000, (filters, memory))
    tensors = [
        q(batch, inputs, zero=4),
        random(1, filters, inputs, dtype="i8", scale=0.01),
        const(random_times, "i16", scale=3e-4),
        random(3, filters // rank, dtype="i32", scale=3e-4 * 1e-3),
        Tensor("i16", (batch, filters * memory), variable=True, scale=1e-3),
        q(batch, filters // rank, scale=0.03, zero=-5),
    ]
    options = {"table": "SVDFOptions", "rank": rank, "fused_activation_function": 1}
    graph = Graph(tensors, [("SVDF", options, [0, 1, 2, 3, 4], [5])], [0], [5])
    return Case(f"SVDF_i8_{rank}", graph, calls=3)
