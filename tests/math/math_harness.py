"""Runs a primitive through its expansion on arrays, in the SDK's interpreter, and measures ulps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Apply, Buffer, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive, result_dtype
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.target import Target

Array = NDArray[Any]
P = Primitive
BASIC = frozenset({P.ADD, P.SUB, P.MUL, P.DIV, P.LT, P.EQ, P.AND, P.OR, P.XOR, P.SHL, P.SHR})
MOVES = frozenset({P.SELECT, P.CAST, P.BITCAST})
# integer remainders cannot be expanded, those of floats are; everything else there is, is
PLAIN = Target(
    "plain",
    primitives=BASIC | MOVES | {P.REM, P.SQRT},
    lacks=frozenset((P.REM, d) for d in DType if d.is_float),
)
FUSED = Target(
    "fused",
    fma=True,
    primitives=PLAIN.primitives | {P.FMA, P.FLOOR, P.TRUNC, P.ROUND, P.ABS, P.NEG, P.MAX, P.MIN},
    lacks=PLAIN.lacks,
)
SCALING = replace(FUSED, name="scaling", primitives=FUSED.primitives | {P.LDEXP})
TABLES = replace(SCALING, name="tables", primitives=SCALING.primitives | {P.LOOKUP})
TARGETS = {"plain": PLAIN, "fused": FUSED, "scaling": SCALING, "tables": TABLES}


def kernel_of(
    primitive: Primitive,
    dtypes: Sequence[DType],
    count: int,
    result: DType | None = None,
    lanes: int = 1,
) -> Kernel:
    """`out[i] = primitive(in0[i], …)` for all i."""
    result = result or result_dtype(primitive, tuple(dtypes))
    inputs = [Buffer(f"x{k}", d, count) for k, d in enumerate(dtypes)]
    out = Buffer("out", result, count, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, count, lanes) as i:
        at = build.ramp(i, 1, lanes)
        operands = tuple(build.load(x, at) for x in inputs)
        b.store(out, at, Apply(primitive, operands, result, lanes))
    return Kernel("k", (*inputs, out), b.body())


def expanded(
    primitive: Primitive,
    arrays: Sequence[Array],
    target: Target,
    result: DType | None = None,
    fast: bool = False,
) -> Array:
    """The expansion's result, all elements in one vector."""
    dtypes = [DType.of(a.dtype) for a in arrays]
    count = len(arrays[0])
    kernel = legalize(kernel_of(primitive, dtypes, count, result, lanes=count), target, fast)
    held = [
        np.ascontiguousarray(a).view(p.dtype.numpy)
        for a, p in zip(arrays, kernel.parameters, strict=False)
    ]
    kind = (result or result_dtype(primitive, tuple(dtypes))).numpy
    out = np.zeros(count, kernel.parameters[-1].dtype.numpy)
    names = [p.name for p in kernel.parameters]
    run_kernel(kernel, dict(zip(names, [*held, out], strict=True)))
    return out.view(kind)


def ulps(got: Array, exact: Array) -> Array:
    """The distance from the exact value (in a wider type) in units of the last place of its
    rounding.

    Equal specials (NaN, infinities, zeros with their signs) are 0 apart, unequal ones infinitely
    far.
    """
    kind = got.dtype
    with np.errstate(all="ignore"):
        near = exact.astype(kind)
        unit = np.spacing(np.abs(near)).astype(exact.dtype)
        limit = np.finfo(kind).max
        unit = np.where(np.isfinite(near), unit, np.spacing(limit).astype(exact.dtype))
        distance = np.abs(got.astype(exact.dtype) - exact) / unit
    special = ~np.isfinite(near) | ~np.isfinite(got)
    same = (np.isnan(got) & np.isnan(near)) | (got == near)
    # one past the largest number may round either way within the bound
    edge = (
        np.isfinite(exact)
        & (np.abs(exact) < limit * (1 + 2.0**-20))
        & (np.abs(exact) > limit * (1 - 2.0**-20))
    )
    distance = np.where(special & ~edge, np.where(same, 0.0, np.inf), distance)
    zeros = (got == 0) & (near == 0) & (np.signbit(got) != np.signbit(near))
    return np.where(zeros, np.inf, np.nan_to_num(distance, nan=0.0, posinf=np.inf))
