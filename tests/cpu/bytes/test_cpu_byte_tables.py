"""Lookups in tables of 256 bytes and of 16 floats on several processors, against the interpreter;
and functions of bytes, which become such.
"""

from __future__ import annotations

import numpy as np
import pytest
from cpu_programs import both, kernel_of, machine, same
from processors import needs_processor

from xlac import driver
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_cpu import BACKEND
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import INDEX, apply, cast, load, ramp
from xlac_sdk.kernel_ir.kernel import Const
from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.programs.program import Role
from xlac_sdk.target import Request

COUNT = 1024
PROCESSORS = {  # and what looks up bytes there
    "": None,
    "x86-64": "",
    "x86-64-v3": "pshufb",
    "x86-64-v4": "pshufb",
    "icelake-server": "vpermi2b",
}


@pytest.mark.parametrize("cpu", PROCESSORS)
@pytest.mark.sampled(6)
def test_lookups(cpu: str) -> None:
    """Every byte, tables of signed and unsigned numbers, vectors that are no register."""
    needs_processor(cpu)
    target, rng = machine(cpu=cpu), np.random.default_rng(5)
    assert PROCESSORS[cpu] is None or target.machine["tables"] == PROCESSORS[cpu]
    assert target.byte_tables is bool(target.machine["tables"])
    chosen = np.concatenate([np.arange(256), rng.integers(0, 256, COUNT - 256)]).astype(np.uint8)
    for dtype in (DType.U8, DType.I8):
        table = rng.permutation(256).astype(np.uint8).view(dtype.numpy)
        for lanes in (1, 3, 4, 8, 16, 32, 64, 100):

            def body(b, buffers, lanes=lanes):  # type: ignore[no-untyped-def]
                with b.loop("i", 0, COUNT // lanes * lanes, lanes) as i:
                    at = ramp(i, 1, lanes)
                    index = cast(load(buffers["x"], at), INDEX)
                    b.store(buffers["y"], at, load(buffers["t"], index))

            reads = {"x": (DType.U8, COUNT), "t": (dtype, 256)}
            kernel = kernel_of(body, reads, {"y": (dtype, COUNT // lanes * lanes)})
            ours, right = both(kernel, target, x=chosen, t=table)
            assert same(ours["y"], right["y"])


def quantized(x: Node, scale: float, zero: float) -> Node:
    """Floats over a scale, rounded to u8."""
    rounded = build.add(build.apply1("round", build.div(x, scale)), zero)
    held = build.minimum(build.maximum(rounded, 0.0), 255.0)
    return build.cast(held, DType.U8)


def dequantized(x: Node, scale: float, zero: int) -> Node:
    whole = build.sub(build.cast(x, DType.I16), build.constant(zero, DType.I16))
    return build.mul(build.cast(whole, DType.F32), scale)


@pytest.mark.parametrize("cpu", ["", "x86-64-v3"])
@pytest.mark.sampled(1)
def test_functions_of_bytes_follow_products(cpu: str) -> None:
    """x times its sigmoid, each step quantized, is one table behind a product; a copy of it in
    floats, for a second reader, is not stored.
    """
    needs_processor(cpu)
    rng = np.random.default_rng(2)
    x = rng.integers(0, 256, (9, 64)).astype(np.uint8)
    w = rng.integers(-127, 128, (64, 40)).astype(np.int8)
    left = Node.of(Param("x", Type(DType.U8, x.shape), "input"))
    right = Node.of(Param("w", Type(DType.I8, w.shape), "weight"))
    product = build.dot(dequantized(left, 2**-6, 128), dequantized(right, 2**-7, 0), ((1,), (0,)))
    whole = quantized(product, 2**-4, 120.0)  # powers of 2: nothing is rounded but to bytes
    gate = quantized(build.apply1("sigmoid", dequantized(whole, 2**-4, 120)), 2**-8, 0.0)
    gated = build.mul(dequantized(whole, 2**-4, 120.0), dequantized(gate, 2**-8, 0))
    swish = dequantized(quantized(gated, 2**-5, 9.0), 2**-5, 9)
    outputs = {"least": build.reduce(swish, "min", (0,)), "most": build.reduce(swish, "max", (1,))}
    graph = Graph("g", (left,), outputs)
    lowered = driver.lower(Model(graph, {"w": w}), BACKEND.target(Request(cpu=cpu)))
    found, right_ = driver.executable(lowered, BACKEND)(x=x), interpret(graph, {"x": x}, {"w": w})
    for name, value in right_.items():
        np.testing.assert_array_equal(np.asarray(found[name]), value, err_msg=name)
    owned = [slot for slot in lowered.program.slots if slot.role is Role.TEMPORARY]
    stored = {(slot.dtype, slot.shape) for slot in owned}
    assert stored - {(DType.I16, x.shape)} == {
        (DType.U8, (9, 40))
    }  # x as i16, where those multiply


@pytest.mark.parametrize("lanes", [1, 3, 4, 8, 16, 24, 32, 40, 64])
@pytest.mark.parametrize("cpu", ["", "x86-64-v4", "x86-64-v3"])
@pytest.mark.sampled(8)
def test_tables_are_looked_up(lanes: int, cpu: str, x86: bool) -> None:
    """Constant ones by an instruction where the machine has one, whatever a vector's lanes."""
    needs_processor(cpu)
    count = 960
    index = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, count).astype(np.int32)
    tables = np.random.default_rng(1).normal(size=(16, count)).astype(np.float32)
    names = [f"t{n}" for n in range(16)]

    def body(b, buffers):  # type: ignore[no-untyped-def]
        with b.loop("i", 0, count // lanes * lanes, lanes) as i:
            at = ramp(i, 1, lanes)
            given = load(buffers["n"], at)
            constants = [Const(float(tables[n, 0]), DType.F32, lanes) for n in range(16)]
            b.store(buffers["y"], at, apply(P.LOOKUP, *constants, given))
            b.store(
                buffers["z"], at, apply(P.LOOKUP, *(load(buffers[n], at) for n in names), given)
            )

    target = machine(cpu=cpu)
    assert target.spells(P.LOOKUP, DType.F32) == target.masked or not x86
    floats = (DType.F32, count)
    reads = {"n": (DType.I32, count), **dict.fromkeys(names, floats)}
    kernel = kernel_of(body, reads, {"y": floats, "z": floats})
    ours, right = both(kernel, target, n=index, **dict(zip(names, tables, strict=True)))
    for name in "yz":
        assert same(ours[name], right[name])
