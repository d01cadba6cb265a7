"""Programs of one kernel with one input and one output, around the statements that a case tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xlac_sdk.conformance.case import EXACT, ConformanceCase, Tolerance
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Copy, Launch, Program, Repeat, Role, Slot

SIZE = 37  # a size that no vector width divides


def single(
    name: str,
    body: Callable[[build.Builder, Buffer, Buffer], None],
    *,
    size: int = SIZE,
    out: int | None = None,
    dtype: DType = DType.F32,
    result: DType | None = None,
    access: Access = Access.WRITE,
    tolerance: Tolerance = EXACT,
    group: str = "statements",
    names: tuple[str, str] = ("x", "y"),
) -> ConformanceCase:
    """A program of one kernel with one input and one output."""
    result_type = result or dtype
    x = Buffer(names[0], dtype, size, align=1)
    y = Buffer(names[1], result_type, size if out is None else out, access=access, align=1)
    builder = build.Builder()
    body(builder, x, y)
    identifier = "k_" + "".join(c if c.isalnum() else "_" for c in name)
    return of_kernel(
        name, Kernel(identifier, (x, y), builder.body()), values(dtype, size), tolerance, group
    )


def of_kernel(
    name: str,
    kernel: Kernel,
    values: Array,
    tolerance: Tolerance = EXACT,
    group: str = "statements",
    sizes: tuple[int, ...] = (),
) -> ConformanceCase:
    """A program that launches a kernel of two parameters on `values`."""
    x, y = kernel.parameters
    assert isinstance(y.size, int) or sizes
    count = y.size if isinstance(y.size, int) else len(values)
    given = Slot("x", "in0", x.dtype, (len(values),), Role.INPUT)
    wanted = Slot("y", "out0", y.dtype, (count,), Role.OUTPUT)
    launch = Launch(kernel, (Argument(given), Argument(wanted)), sizes)
    program = Program("conformance", (given,), (wanted,), (given, wanted), (launch,), {})
    return ConformanceCase(name, group, program, {"x": values}, tolerance)


def in_rows(name: str, kernel: Kernel, width: int, group: str) -> ConformanceCase:
    """A program that launches a kernel of two buffers of `width` f32 on rows that have one element
    more: all but the first begin where no vector is aligned.
    """
    size = 3 * (width + 1)
    x = Slot("x", "in0", DType.F32, (size,), Role.INPUT)
    y = Slot("y", "out0", DType.F32, (size,), Role.OUTPUT)
    row = (("row", width + 1),)
    launch = Launch(kernel, (Argument(x, 0, row), Argument(y, 0, row)))
    steps = (Copy(Argument(y), Argument(x), size), Repeat("row", 3, (launch,)))
    program = Program("conformance", (x,), (y,), (x, y), steps, {})
    return ConformanceCase(name, group, program, {"x": values(DType.F32, size)})


def values(dtype: DType, size: int) -> Array:
    """Ordinary elements, the same in every run."""
    rng = np.random.default_rng(size)
    if dtype.is_float:
        return rng.standard_normal(size).astype(dtype.numpy)
    return rng.integers(0, 2 if dtype is DType.BOOL else 100, size).astype(dtype.numpy)


def twice(value: Expr) -> Expr:
    """value + value"""
    return build.apply(Primitive.ADD, value, value)
