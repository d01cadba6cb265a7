"""Primitives as the cpu backend compiles them, run on whole ranges of f32 and judged in float64."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from math_harness import Array, kernel_of, ulps
from scipy import special

from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Request

P = Primitive
BLOCK = 1 << 18  # elements a call


def _gelu(x: Array) -> Array:
    return np.where(np.isneginf(x), -0.0, np.where(x > 40, x, x * special.ndtr(x)))


EXACT: dict[P, Callable[[Array], Array]] = {
    P.EXP: np.exp, P.EXP2: np.exp2, P.EXPM1: np.expm1, P.LOG: np.log, P.LOG2: np.log2,
    P.LOG1P: np.log1p, P.SIN: np.sin, P.COS: np.cos, P.TANH: np.tanh, P.SIGMOID: special.expit,
    P.ERF: special.erf, P.GELU: _gelu, P.RSQRT: lambda x: 1 / np.sqrt(x),
}  # fmt: skip
"""In float64: within 2^-50 of the exact value, which judges f32."""


def program_of(
    primitive: P, dtypes: Sequence[DType], count: int, lanes: int, launches: int = 1
) -> Program:
    """A program of inputs a, b and output y."""
    kernel = kernel_of(primitive, dtypes, count, lanes=lanes)
    ins = [Slot("ab"[k], f"in{k}", d, (count,), Role.INPUT) for k, d in enumerate(dtypes)]
    out = Slot("y", "out", kernel.parameters[-1].dtype, (count,), Role.OUTPUT)
    step = Launch(kernel, tuple(map(Argument, (*ins, out))))
    return Program(primitive.value, tuple(ins), (out,), (*ins, out), (step,) * launches, {})


def executable(
    backend: Backend,
    primitive: P,
    dtypes: Sequence[DType],
    count: int,
    cpu: str = "",
    launches: int = 1,
) -> Any:
    """A primitive on arrays of so many elements, for one kind of processor."""
    target = backend.target(Request(cpu=cpu))
    program = program_of(primitive, dtypes, count, target.lanes(dtypes[0]), launches)
    with tempfile.TemporaryDirectory() as folder:
        return backend.load(
            backend.build(backend.emit(program, target), Path(folder)), program, target
        )


def run(function: Any, *arrays: Array) -> Array:
    """Its results, of the type of its operands."""
    out = np.zeros(len(arrays[0]), arrays[0].dtype)
    function.run(dict(zip("ab", arrays, strict=False)), {"y": out})
    return out


def patterns(step: int) -> Iterator[Array]:
    """Every `step`-th bit pattern of f32, from end to end, in blocks; the last repeats its last
    element.
    """
    for start in range(0, 1 << 32, step * BLOCK):
        bits = np.minimum(start + step * np.arange(BLOCK, dtype=np.int64), (1 << 32) - 1)
        yield bits.astype(np.uint32).view(np.float32)


def pairs(count: int) -> Iterator[tuple[Array, Array]]:
    """Bases and exponents whose power is neither 0 nor infinite, for the most part."""
    rng = np.random.default_rng(2)
    for start in range(0, count, BLOCK):
        base = np.exp(rng.uniform(-1, 1, BLOCK) * (80.0 if start // BLOCK % 2 else 1.0))
        yield (
            base.astype(np.float32),
            (rng.uniform(-87, 87, BLOCK) / np.log(base)).astype(np.float32),
        )


def worst(primitive: P, step: int, cpu: str = "") -> tuple[float, tuple[float, ...]]:
    """The greatest distance from the exact value in ulps, over every `step`-th float (pow: as many
    pairs), and where it is.
    """
    two = primitive is P.POW
    function = executable(find("cpu"), primitive, [DType.F32] * (1 + two), BLOCK, cpu)
    blocks = pairs((1 << 32) // step) if two else ((x,) for x in patterns(step))
    most, at = -1.0, ()
    with np.errstate(all="ignore"):
        for arrays in blocks:
            wide = [a.astype(np.float64) for a in arrays]
            distance = ulps(
                run(function, *arrays), np.power(*wide) if two else EXACT[primitive](*wide)
            )
            k = int(distance.argmax())
            if distance[k] > most:
                most, at = float(distance[k]), tuple(float(a[k]) for a in arrays)
    return most, at
