"""Small programs around single kernels, run on the cpu backend and by the interpreter."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from xlac_cpu import BACKEND
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Kernel, Work
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.programs.program import Argument, Copy, Launch, Program, Role, Slot
from xlac_sdk.target import Request, Target

Wanted = Callable[[Builder, dict[str, Buffer]], None]


def kernel_of(
    body: Wanted,
    reads: dict[str, tuple[DType, int]],
    writes: dict[str, tuple[DType, int]],
    updates: dict[str, tuple[DType, int]] | None = None,
    name: str = "kernel",
    work: Work | None = None,
) -> Kernel:
    """A kernel whose buffers are made from types and sizes, in the order read, write, update."""
    buffers: dict[str, Buffer] = {}
    for access, given in (
        (Access.READ, reads),
        (Access.WRITE, writes),
        (Access.UPDATE, updates or {}),
    ):
        for symbol, (dtype, size) in given.items():
            buffers[symbol] = Buffer(symbol, dtype, size, access=access)
    b = Builder()
    body(b, buffers)
    kernel = Kernel(name, tuple(buffers.values()), b.body(), work=work or Work())
    verify(kernel)
    return kernel


def program_of(kernel: Kernel, sizes: tuple[int, ...] = ()) -> Program:
    """One launch: buffers read are inputs, buffers written outputs; an updated one starts as a copy
    of its input.
    """
    inputs, outputs, copies, arguments = [], [], [], []
    for buffer in kernel.parameters:
        assert isinstance(buffer.size, int)
        shape = (buffer.size,)
        if buffer.access is not Access.READ:
            slot = Slot(buffer.name, buffer.name, buffer.dtype, shape, Role.OUTPUT)
            outputs.append(slot)
            if buffer.access is Access.UPDATE:
                before = Slot(
                    f"{buffer.name}.before",
                    f"{buffer.name}_before",
                    buffer.dtype,
                    shape,
                    Role.INPUT,
                )
                inputs.append(before)
                copies.append(Copy(Argument(slot), Argument(before), buffer.size))
        else:
            slot = Slot(buffer.name, buffer.name, buffer.dtype, shape, Role.INPUT)
            inputs.append(slot)
        arguments.append(Argument(slot))
    steps = (*copies, Launch(kernel, tuple(arguments), sizes))
    return Program("test", tuple(inputs), tuple(outputs), (*inputs, *outputs), steps, {})


def machine(threads: int = 1, cpu: str = "") -> Target:
    return BACKEND.target(Request(threads=threads, cpu=cpu))


def loaded(program: Program, target: Target):  # type: ignore[no-untyped-def]
    sources = BACKEND.emit(program, target)
    with tempfile.TemporaryDirectory() as folder:
        made = BACKEND.load(BACKEND.build(sources, Path(folder)), program, target)
    made.quicken()
    return made


def outputs_of(program: Program) -> dict[str, Array]:
    return {s.name: np.zeros(s.shape, s.dtype.numpy) for s in program.outputs}


def both(
    kernel: Kernel, target: Target, **arrays: Array
) -> tuple[dict[str, Array], dict[str, Array]]:
    """The outputs on this machine and those of the interpreter."""
    program = program_of(kernel)
    return both_programs(
        program,
        target,
        {
            (f"{n}.before" if any(s.name == n for s in program.outputs) else n): a
            for n, a in arrays.items()
        },
    )


def both_programs(
    program: Program, target: Target, inputs: dict[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    ours, right = outputs_of(program), outputs_of(program)
    loaded(program, target).run(inputs, ours)
    Interpreter(program).run(inputs, right)
    return ours, right


def same(ours: Array, right: Array) -> bool:
    """Bit for bit, but for the payloads of NaNs."""
    if ours.dtype != right.dtype or ours.shape != right.shape:
        return False
    if right.dtype.kind in "iub":
        return np.array_equal(ours, right)
    nan = np.isnan(right)
    whole = np.dtype(f"u{right.dtype.itemsize}")
    return np.array_equal(nan, np.isnan(ours)) and np.array_equal(
        ours[~nan].view(whole), right[~nan].view(whole)
    )


def samples(dtype: DType, count: int, seed: int = 0) -> Array:
    """Corner values first, then a spread over the whole range."""
    rng = np.random.default_rng(seed)
    if dtype is DType.BOOL:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        corners = [
            0,
            1,
            2,
            3,
            7,
            info.max,
            info.max - 1,
            info.min,
            info.min + 1,
            dtype.bits - 1,
            dtype.bits,
            dtype.bits + 1,
        ]
        corners += [-1, -2, -7] if dtype.is_signed else [info.max - 2]
        spread = rng.integers(info.min, info.max, count, dtype=dtype.numpy, endpoint=True)
        spread >>= rng.integers(0, dtype.bits, count).astype(dtype.numpy)
        values = np.concatenate([np.array(corners, dtype.numpy), spread])
    else:
        corners = [
            0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 65504.0, 65520.0,
            1e-40, -1e-45, 6.1e-5, 5.96e-8, 2.98e-8, 3e-8, 3.4e38, 1e300, 255.5, -128.7,
            2147483647.0, 2147483648.0, -2147483649.0, 9.3e18, 1.9e19, 1.00390625, 1.01171875,
            2049.0, 2051.0,
        ]  # fmt: skip
        spread = rng.normal(size=count) * np.exp2(rng.uniform(-20, 20, count))
        with np.errstate(all="ignore"):
            values = np.concatenate([np.array(corners), spread]).astype(dtype.numpy)
    order = rng.permutation(len(values[:count])) if seed else np.arange(min(count, len(values)))
    return np.ascontiguousarray(values[:count][order])
