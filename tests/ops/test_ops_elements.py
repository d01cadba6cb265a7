"""`element` computes in a kernel what `evaluate` computes in NumPy, for every elementwise
operation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from xlac.ir.dims import static
from xlac.ir.op import OPS, Elementwise, Operand, Sample
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.sampling import draw
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.kernels import run_kernel
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Kernel

NAMES = sorted(n for n, c in OPS.items() if issubclass(c, Elementwise) and n not in ("const",))
LANES = 4
EXACT = {
    "add",
    "sub",
    "mul",
    "max",
    "min",
    "floor",
    "round",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "compare",
    "select",
    "cast",
    "bitcast",
}


def kernel(op: Elementwise, types: tuple[Type, ...], result: Type) -> Kernel:
    """Loops over the result, the last axis in vectors with a scalar tail."""
    sources = [Buffer(f"x{n}", t.dtype, math.prod(static(t.shape))) for n, t in enumerate(types)]
    target = Buffer("y", result.dtype, math.prod(static(result.shape)), access=Access.WRITE)
    builder = build.Builder()

    def linear(index: tuple[Expr, ...], shape: tuple[int, ...]) -> Expr:
        place: Expr = build.index(0)
        for i, size in zip(index, shape, strict=True):
            place = build.add(build.mul(place, size), i)
        return place

    def operand(number: int, t: Type) -> Operand:
        shape = static(t.shape)
        return Operand(
            t,
            lambda index, _: build.cast(
                build.load(sources[number], linear(index, shape)), t.dtype.compute
            ),
        )

    operands = [operand(n, t) for n, t in enumerate(types)]
    shape = static(result.shape)

    def store(at: tuple[Expr, ...]) -> None:
        value = op.element(at, result, *operands)
        assert value.dtype is result.dtype.compute, f"{op.mnemonic} gives {value.dtype}"
        builder.store(target, linear(at, shape), build.cast(value, result.dtype))

    def nest(at: tuple[Expr, ...]) -> None:
        if len(at) == len(shape):
            store(at)
        elif len(at) == len(shape) - 1 and shape[-1] >= LANES:
            whole = shape[-1] // LANES * LANES
            with builder.loop("v", 0, whole, LANES) as i:
                store((*at, build.ramp(i, 1, LANES)))
            with builder.loop("t", whole, shape[-1]) as i:
                store((*at, i))
        else:
            with builder.loop("i", 0, shape[len(at)]) as i:
                nest((*at, i))

    nest(())
    return Kernel("element", (*sources, target), builder.body())


def check(op: Elementwise, sample: Sample) -> None:
    arrays = draw(sample)
    result = op.infer(*sample.inputs)
    assert isinstance(result, Type)
    wanted = op.evaluate(*arrays)
    made = kernel(op, sample.inputs, result)
    out = np.empty(static(result.shape), result.dtype.numpy).reshape(-1)
    buffers = {f"x{n}": np.ascontiguousarray(a).reshape(-1) for n, a in enumerate(arrays)}
    run_kernel(made, {b.name: buffers.get(b.name, out) for b in made.parameters})
    found = out.reshape(static(result.shape))
    if numeric.is_float(found) and op.mnemonic not in EXACT:
        wide = np.float32 if found.dtype.itemsize == 2 else found.dtype
        eps = 2.0**-8 if result.dtype is DType.BF16 else float(np.finfo(found.dtype).eps)
        np.testing.assert_allclose(
            found.astype(wide), wanted.astype(wide), rtol=2 * eps, atol=1e-300
        )
    else:
        np.testing.assert_array_equal(numeric.widen(found), numeric.widen(wanted))


@pytest.mark.parametrize("name", NAMES)
def test_element_agrees_with_evaluate(name: str) -> None:
    for sample in OPS[name].samples():
        op = OPS[name](**sample.attributes)
        assert isinstance(op, Elementwise)
        result = op.infer(*sample.inputs)
        assert isinstance(result, Type)
        if 0 < math.prod(static(result.shape)) <= 1300:
            check(op, sample)


def test_every_conversion() -> None:
    for old in DType:
        for new in DType:
            check(Cast(new), Sample((Type(old, (23,)),), {}, ("special",)))


def test_halves_are_rounded_in_kernels() -> None:
    value = convert_element(
        build.apply(build.P.ADD, *(build.cast(build.index(n), DType.F32) for n in (2048, 1))),
        DType.F16,
    )
    buffer = Buffer("y", DType.F32, 1, access=Access.WRITE)
    builder = build.Builder()
    builder.store(buffer, 0, value)
    out = np.zeros(1, np.float32)
    run_kernel(Kernel("half", (buffer,), builder.body()), {"y": out})
    assert out[0] == 2048  # 2049 has no place in f16
