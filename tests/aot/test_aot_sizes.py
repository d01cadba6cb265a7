"""Sizes that each call chooses, through the C API of native code: within bounds they count, beyond them nothing runs."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from xlac_cpu import BACKEND
from xlac_sdk.build import Builder, apply, load
from xlac_sdk.capi import Status
from xlac_sdk.capi.library import Context, aligned
from xlac_sdk.dims import symbol, symbols
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Access, Buffer, Kernel, Var
from xlac_sdk.package import Packaging, Variant
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Request

COUNT = symbol("n", min=4, max=100, opt=8, multiple_of=4)
OFFSET = symbol("k", min=0, max=7)


def doubling() -> Program:
    """y = x + x for x: f32[n]; k is a size that nothing has."""
    n = Var("n", DType.I64)
    x, y = Buffer("x", DType.F32, n), Buffer("y", DType.F32, n, access=Access.WRITE)
    b = Builder()
    with b.loop("i", 0, n) as i:
        b.store(y, i, apply(Primitive.ADD, load(x, i), load(x, i)))
    kernel = Kernel("double", (x, y), b.body(), (n,))
    given = Slot("x", "x", DType.F32, (COUNT,), Role.INPUT)
    made = Slot("y", "y", DType.F32, (COUNT,), Role.OUTPUT)
    step = Launch(kernel, (Argument(given), Argument(made)), (COUNT,))
    sizes = tuple(one for dim in (COUNT, OFFSET) for one in symbols(dim))
    return Program("doubling", (given,), (made,), (given, made), (step,), {}, sizes=sizes)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("sizes")
    target = BACKEND.target(Request())
    BACKEND.package([Variant(doubling(), target)], Packaging(("so", "h", "o")), folder)
    assert "int64_t n; /* 'n': 4 to 100, a multiple of 4 */" in (folder / "doubling.h").read_text()
    return ctypes.CDLL(str(folder / "libdoubling.so"))


@pytest.mark.parametrize(
    ("n", "k", "status"),
    [
        (4, 0, Status.OK), (100, 7, Status.OK), (64, 3, Status.OK),
        (0, 0, Status.OUT_OF_BOUNDS), (104, 0, Status.OUT_OF_BOUNDS), (-4, 0, Status.OUT_OF_BOUNDS), (6, 0, Status.OUT_OF_BOUNDS),
        (8, 8, Status.OUT_OF_BOUNDS), (8, -1, Status.OUT_OF_BOUNDS),
    ],
)  # fmt: skip
def test_sizes_count_within_their_bounds(n: int, k: int, status: Status, library: ctypes.CDLL) -> None:
    size, init, run = library.doubling_size, library.doubling_init, library.doubling_run
    sizes = (ctypes.c_int64 * 2)(n, k)
    context, memory = Context(), aligned(64)
    assert init(ctypes.byref(context), ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(64)) == 0
    x = np.arange(104, dtype=np.float32)
    y = np.full(104, -1, np.float32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
    assert run(ctypes.byref(context), sizes, *pointers) == status.number
    wanted = n if status is Status.OK else 0
    assert np.array_equal(y[:wanted], 2 * x[:wanted]) and (y[wanted:] == -1).all()
    assert run(ctypes.byref(context), None, *pointers) == Status.NULL_POINTER.number
    assert size(None) == 0
