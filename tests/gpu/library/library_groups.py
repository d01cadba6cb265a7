"""Groups of a dot product that become one call of a library, and those that do not."""

from __future__ import annotations

from collections.abc import Callable

from library_products import BF16, F16, F32, I8, bias, gelu, linear, matrix, product, relu, x

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.view import Slice

EXACT: dict[str, Callable[[], Node]] = {
    "a bias": lambda: build.add(product(), bias()),
    "a matrix": lambda: build.add(product(), matrix()),
    "a matrix, then a bias": lambda: build.add(build.add(matrix(), product()), bias()),
    "a bias, then a matrix": lambda: build.add(build.add(product(), bias()), matrix()),
    "a scale": lambda: build.mul(product(), 0.125),
    "a scale, a matrix, a bias": lambda: build.add(
        build.add(build.mul(product(), -3.0), matrix()), bias()
    ),
    "a batch": lambda: product(batch=3),
    "a batch and a matrix for each": lambda: build.add(product(batch=3), matrix(F32, 3, 8, 10)),
    "a linear layer": lambda: linear(x(2, 4, 6), x(10, 6, name="w"), bias()),
    "a linear layer in halves": lambda: linear(
        x(8, 6, dtype=BF16), x(10, 6, dtype=BF16, name="w"), bias(BF16)
    ),
    "halves to f32": lambda: build.dot(
        x(8, 6, dtype=F16), x(6, 10, dtype=F16, name="w"), ((1,), (0,)), out_dtype=F32
    ),
    "a transposed result": lambda: build.transpose(product(), (1, 0)),
    "another shape": lambda: build.reshape(product(), (2, 4, 5, 2)),
    "a part of a larger operand": lambda: build.dot(
        build.apply1("slice", x(9, 16), starts=[1, 3], stops=[9, 9]),
        x(6, 10, name="w"),
        ((1,), (0,)),
    ),
    "heads": lambda: build.apply1(
        "matmul",
        build.transpose(x(8, 3, 6), (1, 0, 2)),
        build.transpose(x(10, 3, 6, name="w"), (1, 2, 0)),
    ),
}


"""Groups that a call computes at any precision; `linear` sums in f32 and rounds once."""


ROUNDED: dict[str, Callable[[], Node]] = {
    "relu": lambda: relu(product()),
    "gelu": lambda: gelu(product()),
    "a bias and relu": lambda: relu(build.add(product(), bias())),
    "a bias and gelu": lambda: gelu(build.add(product(), bias())),
    "a bias and relu in halves": lambda: relu(
        linear(x(8, 6, dtype=BF16), x(10, 6, dtype=BF16, name="w"), bias(BF16))
    ),
    "gelu in halves": lambda: gelu(linear(x(8, 6, dtype=F16), x(10, 6, dtype=F16, name="w"))),
    "a residual in halves": lambda: build.add(
        linear(x(8, 6, dtype=BF16), x(10, 6, dtype=BF16, name="w")), matrix(BF16)
    ),
    "a scale in halves": lambda: build.mul(product(dtype=F16), 0.5),
}


"""Groups for which the library skips a rounding, or takes its own activation."""


REFUSED: dict[str, tuple[Callable[[], Node], str]] = {
    "sigmoid": (lambda: build.apply1("sigmoid", product()), "no epilogue for"),
    "gelu by erf": (lambda: gelu(product(), "none"), "no epilogue for"),
    "work after relu": (lambda: build.mul(relu(product()), matrix()), "no epilogue for 'mul'"),
    "two matrices": (
        lambda: build.add(build.add(product(), matrix()), x(8, 10, name="d")),
        "one matrix and one row",
    ),
    "a computed addend": (lambda: build.add(product(), build.exp(matrix())), "is computed"),
    "an addend of another type": (
        lambda: build.cast(
            build.add(
                build.dot(
                    x(8, 6, dtype=F16), x(6, 10, dtype=F16, name="w"), ((1,), (0,)), out_dtype=F32
                ),
                matrix(),
            ),
            F16,
        ),
        "is not f16",
    ),
    "a column for all columns": (lambda: build.add(product(), x(8, 1, name="d")), "neither a row"),
    "one matrix for a batch": (
        lambda: build.add(product(batch=3), matrix()),
        "added to all products of a batch",
    ),
    "small": (lambda: build.dot(x(3, 3), x(3, 3, name="w"), ((1,), (0,))), "flops are fewer"),
    "few rows": (
        lambda: build.dot(x(2, 60), x(60, 60, name="w"), ((1,), (0,))),
        "2 rows are fewer",
    ),
    "integers": (
        lambda: build.dot(x(8, 6, dtype=I8), x(6, 10, dtype=I8, name="w"), ((1,), (0,))),
        "is not used for",
    ),
    "two batches": (
        lambda: build.apply1(
            "matmul",
            build.transpose(x(2, 8, 3, 6), (0, 2, 1, 3)),
            build.transpose(x(2, 6, 3, 10, name="w"), (0, 2, 1, 3)),
        ),
        "steps through a batch",
    ),
    "backwards": (
        lambda: build.dot(
            Node.of(Slice((0, 5), (8, -1), (1, -1)), x(8, 6)), x(6, 10, name="w"), ((1,), (0,))
        ),
        "contiguous in memory, or they overlap",
    ),
    "a row repeated": (
        lambda: build.dot(build.broadcast_to(x(6), (8, 6)), x(6, 10, name="w"), ((1,), (0,))),
        "overlap",
    ),
}
