"""Kernels with 64-bit integers beside what becomes of them on targets without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, For, Kernel, Store, statements
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.lowering.long_integers.split import split_long_integers, with_long_integers
from xlac_sdk.target import Target

P = Primitive
LONG = (DType.I64, DType.U64)
SHORT = frozenset(d for d in DType if d.bits < 64)
# one that spells little, so that most is expanded, and one that spells all that it can
PLAIN = Target("plain", vector_bytes=16, dtypes=SHORT)
RICH = Target(
    "rich",
    vector_bytes=16,
    dtypes=SHORT,
    primitives=frozenset(Primitive),
    lacks=frozenset((P.REM, d) for d in DType if d.is_float),
)
GUARDED = replace(PLAIN, name="guarded", guards=frozenset({P.DIV, P.REM, P.SHL, P.SHR, P.CAST}))
GPU = replace(RICH, name="gpu", warp=4, block_threads=8, device="gpu", shared_bytes=1 << 14)


def split(kernel: Kernel, target: Target) -> Kernel:
    """The kernel without 64-bit integers, verified."""
    made = split_long_integers(legalize(kernel, with_long_integers(target)), target)
    verify(made)
    return made


def longs(kernel: Kernel) -> list[object]:
    """What is left of 64-bit types."""
    found: list[object] = [b for b in kernel.parameters if b.dtype.bits == 64]
    found += [v for v in kernel.sizes if v.dtype.bits == 64]
    for stmt in statements(kernel.body):
        if isinstance(stmt, For):
            found += [stmt.counter] if stmt.counter.dtype.bits == 64 else []
        found += [e for e in walk(roots(stmt)) if e.dtype.bits == 64]
    return found


def computed(kernel: Kernel, given: dict[str, Array]) -> Array:
    """What a kernel stores into its last parameter, as bytes."""
    out = kernel.parameters[-1]
    size = out.size if isinstance(out.size, int) else 0
    memory: dict[str, Any] = {
        b.name: np.ascontiguousarray(given[b.name]).view(b.dtype.numpy)
        for b in kernel.parameters[:-1]
    }
    result = np.zeros(size, out.dtype.numpy)
    run_kernel(kernel, {**memory, out.name: result})
    return result.view(np.uint8)


def of_expression(value: Expr, inputs: list[Buffer], count: int) -> Kernel:
    """Stores one vector."""
    out = Buffer("out", value.dtype, count, access=Access.WRITE)
    return Kernel("k", (*inputs, out), (Store(out, build.index(0), value),))


def check(kernel: Kernel, given: dict[str, Array], target: Target) -> None:
    """The kernel and what becomes of it store the same bits; NaN is no result of either."""
    made = split(kernel, target)
    assert not longs(made)
    with np.errstate(all="ignore"):
        want, got = computed(kernel, given), computed(made, given)
    kind = kernel.parameters[-1].dtype
    np.testing.assert_array_equal(got.view(kind.numpy), want.view(kind.numpy))
