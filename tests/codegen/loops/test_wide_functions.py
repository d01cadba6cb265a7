"""Long functions of four vectors as one: which are computed together, and that no bit changes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import xlac
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build as ops
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import compile_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Apply, Buffer, Expr, Kernel, Let, Ramp, statements
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.lowering.wide_functions import widened
from xlac_sdk.target import Target

TARGET = Target("few", vector_bytes=32, vector_registers=16, fma=True)
LANES = 8
X = Buffer("x", DType.F32, 8 * LANES)
Y = Buffer("y", DType.F32, 8 * LANES, access=Access.WRITE)
BOTH = Buffer("z", DType.F32, 8 * LANES, access=Access.UPDATE)


def part(n: int) -> Ramp:
    at = build.ramp(build.index(n * LANES), 1, LANES)
    assert isinstance(at, Ramp)
    return at


def kernel_of(*functions: P, count: int = 4, source: Buffer = X, target: Buffer = Y) -> Kernel:
    """Functions of functions of vectors, each loaded before and stored before the next."""
    builder = Builder()
    for n in range(count):
        value: Expr = builder.let("r", build.load(source, part(n)))
        for function in functions:
            value = builder.let("v", build.apply(function, value))
        builder.store(target, part(n), value)
    buffers = (source,) if source is target else (source, target)
    return Kernel("k", buffers, builder.body())


def found(kernel: Kernel) -> Counter[tuple[P, int]]:
    """How many functions there are of vectors of so many lanes."""
    values = (stmt.value for stmt in statements(kernel.body) if isinstance(stmt, Let))
    return Counter((v.primitive, v.lanes) for v in values if isinstance(v, Apply))


def run(kernel: Kernel) -> np.ndarray:
    verify(kernel)
    x = np.random.default_rng(0).standard_normal(8 * LANES).astype(np.float32)
    y = np.zeros_like(x)
    compile_kernel(kernel)(*([x] if len(kernel.parameters) == 1 else [x, y]))
    return x if len(kernel.parameters) == 1 else y


def check(kernel: Kernel, wanted: dict[tuple[P, int], int]) -> None:
    wide = widened(kernel, TARGET)
    assert found(wide) == wanted
    np.testing.assert_array_equal(run(wide), run(kernel))


def test_four_at_a_time() -> None:
    check(kernel_of(P.GELU, count=7), {(P.GELU, 32): 1, (P.GELU, 8): 3})
    check(kernel_of(P.GELU, count=8), {(P.GELU, 32): 2})


def test_a_function_of_a_function() -> None:
    check(kernel_of(P.EXP, P.LOG1P), {(P.EXP, 32): 1, (P.LOG1P, 32): 1})
    check(kernel_of(P.TANH, P.NEG, P.TANH), {(P.TANH, 32): 2, (P.NEG, 8): 4})
    check(kernel_of(P.TANH, P.TANH, P.TANH, count=5), {(P.TANH, 32): 3, (P.TANH, 8): 3})


def test_what_needs_the_one_before_it_waits_for_it() -> None:
    builder = Builder()
    value: Expr = builder.let("r", build.load(X, part(0)))
    for _ in range(5):
        value = builder.let("v", build.apply(P.SIN, value))
    builder.store(Y, part(0), value)
    kernel = Kernel("k", (X, Y), builder.body())
    assert widened(kernel, TARGET) is kernel


def test_nothing_is_read_before_it_is_stored() -> None:
    """Of one array that is read and written, the compiler does not ask where."""
    kernel = kernel_of(P.GELU, source=BOTH, target=BOTH)
    assert widened(kernel, TARGET) is kernel


@pytest.mark.parametrize("seed", range(40))
def test_random_statements(seed: int) -> None:
    """Loads and stores of two arrays, sums and functions in any order."""
    rng, builder = np.random.default_rng(seed), Builder()
    values: list[Expr] = [builder.let("r", build.load(X, part(0)))]
    for _ in range(60):
        a, b = (values[-1 - int(n)] for n in rng.integers(0, min(6, len(values)), 2))
        match rng.integers(0, 8):
            case 0:
                values.append(builder.let("r", build.load(X, part(int(rng.integers(8))))))
            case 1:
                values.append(builder.let("r", build.load(BOTH, part(int(rng.integers(8))))))
            case 2:
                builder.store(BOTH, part(int(rng.integers(8))), a)
            case 3:
                values.append(builder.let("v", build.mul(a, b)))
            case _:
                function = (P.TANH, P.SIN)[int(rng.integers(2))]
                values.append(builder.let("v", build.apply(function, a)))
    builder.store(BOTH, part(0), values[-1])
    kernel = Kernel("k", (X, BOTH), builder.body())
    wide = widened(kernel, TARGET)
    assert found(wide)[P.TANH, 32] + found(wide)[P.SIN, 32]
    np.testing.assert_array_equal(run(wide), run(kernel))


@pytest.mark.parametrize(
    "target",
    [
        Target("small", vector_bytes=32, vector_registers=16, size=True),
        Target("eight", vector_bytes=32, vector_registers=8),
        Target("language", vector_bytes=32, vector_registers=32, most_lanes=16),
        Target("longer", vector_bytes=64, vector_registers=32),
    ],
    ids=lambda target: target.name,
)
def test_where_it_does_not_pay(target: Target) -> None:
    kernel = kernel_of(P.GELU)
    assert widened(kernel, target) is kernel


def product(rows: int, dtype: DType, function: str) -> Node:
    """Tiles of whole and partial rows and columns."""
    x = ops.param("x", dtype, (rows, 20))
    w = ops.param("w", dtype, (20, 52))
    return ops.apply1(function, ops.apply1("matmul", x, w))


def depthwise(width: int, dtype: DType, function: str) -> Node:
    x, w = ops.param("x", dtype, (1, 5, width, 12)), ops.param("w", dtype, (3, 3, 1, 12))
    known = {"strides": (1, 1), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1), "low": (1, 1)}
    layout = ("NHWC", "HWIO", "NHWC")
    convolved = ops.apply1("conv", x, w, **known, high=(1, 1), feature_groups=12, layout=layout)
    return ops.apply1(function, convolved)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("cpu", ["", "x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("function", ["gelu", "silu", "tanh"])
@pytest.mark.parametrize("size", [1, 3, 4, 6, 8, 14, 23])
@pytest.mark.parametrize("make", [product, depthwise])
def test_no_number_changes(
    make: object, size: int, function: str, dtype: DType, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    assert callable(make)
    graph = Graph("g", (), {"y": make(size, dtype, function)})
    inputs = tuple(node for node in graph.nodes() if not node.inputs)
    model = Model(Graph("g", inputs, graph.outputs), {})
    rng = np.random.default_rng(size)
    given = [(rng.standard_normal(static(n.shape)) * 2).astype(dtype.numpy) for n in inputs]
    given[0].flat[::7] = np.resize([np.nan, np.inf, -np.inf, -0.0, 1e-40], len(given[0].flat[::7]))
    together = np.asarray(xlac.compile(model, cpu=cpu)(*given))
    monkeypatch.setattr("xlac_cpu.emit.module.widened", lambda kernel, target: kernel)
    np.testing.assert_array_equal(together, np.asarray(xlac.compile(model, cpu=cpu)(*given)))
