"""Facts about machines, and code for machines other than this one."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_programs import kernel_of, loaded, machine, program_of
from sampling import Some

from xlac_cpu import BACKEND
from xlac_cpu.emit.threads.pool import text as pool_text
from xlac_cpu.llvm import link
from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import apply, fold, load, ramp
from xlac_sdk.kernel_ir.kernel import Const, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request

P = Primitive


def sample(lanes: int) -> Kernel:
    def body(b, buffers):  # type: ignore[no-untyped-def]
        total = b.variable("t", Const(0.0, DType.F32, lanes))
        with b.loop("i", 0, 64, lanes) as i:
            at = ramp(i, 1, lanes)
            value = apply(P.EXP, load(buffers["x"], at))
            b.assign(total, apply(P.ADD, total, value))
            b.store(buffers["y"], at, apply(P.MAX, value, load(buffers["x"], at)))
            b.store(buffers["h"], at, apply(P.CAST, value, dtype=DType.F16))
        b.store(buffers["s"], 0, fold(P.ADD, total))

    outputs = {"y": (DType.F32, 64), "h": (DType.F16, 64), "s": (DType.F32, 1)}
    return kernel_of(body, {"x": (DType.F32, 64)}, outputs)


def test_the_host_is_described() -> None:
    target = machine(3)
    assert target.name == "cpu" and target.threads == 3
    assert target.vector_bytes in (16, 32, 64) and target.vector_registers in (8, 16, 32)
    assert 4096 <= target.l1_bytes <= target.l2_bytes <= target.l3_bytes
    assert Machine.of(target) == host()
    assert P.EXP not in target.primitives and P.SELECT in target.primitives
    assert (P.FMA in target.primitives) == target.fma


@pytest.mark.parametrize(
    "cpu,width,fma",
    [
        ("x86-64", 16, False),
        ("x86-64-v3", 32, True),
        ("x86-64-v4", 64, True),
        ("skylake", 32, True),
    ],
)
def test_x86_cpus_are_asked(cpu: str, width: int, fma: bool, x86: bool) -> None:
    target = BACKEND.target(Request(cpu=cpu, triple="x86_64-unknown-linux-gnu"))
    assert (target.vector_bytes, target.fma, target.masked) == (width, fma, width == 64)
    assert target.facts != machine().facts


def test_a_lesser_cpu_runs_here(x86: bool) -> None:
    if not x86:
        pytest.skip("an x86 CPU")
    x = np.linspace(-2, 2, 64, dtype="f4")
    for cpu in ("x86-64", "x86-64-v3"):
        target = machine(cpu=cpu)
        program = program_of(sample(target.lanes(DType.F32)))
        text = BACKEND.asm(program, target)
        assert "zmm" not in text and ("ymm" in text) == (cpu == "x86-64-v3")
        y, h, s = loaded(program, target).fast(x)
        assert (
            np.allclose(y, np.maximum(np.exp(x), x))
            and np.allclose(h, np.exp(x), rtol=1e-3)
            and np.allclose(s, np.exp(x).sum())
        )


def test_unknown_machines_come_with_suggestions(some: Some) -> None:
    with pytest.raises(SourceError, match=r"unknown CPU 'skylakee'.*\n.*did you mean 'skylake'"):
        BACKEND.target(Request(cpu="skylakee", triple="x86_64-unknown-linux-gnu"))
    with pytest.raises(
        SourceError,
        match=r"triple 'aarm64-unknown-linux-gnu'.*\n.*did you mean 'aarch64-unknown-linux-gnu'",
    ):
        BACKEND.target(Request(triple="aarm64-unknown-linux-gnu"))
    for triple in ("armv9000-unknown-linux-gnueabihf", "armv7zz-unknown-linux-gnueabihf"):
        with pytest.raises(SourceError, match="did you mean 'armv7-unknown-linux-gnueabihf'"):
            BACKEND.target(Request(triple=triple))
    old, new = "arm armeb armv4t armv5te armv6kz", "armv7 armv7a armv7l armv8.2a"
    known = f"{old} {new} thumbv6m thumbv7em thumbv8m.main"
    for arch in some(known.split(), 4):  # each asks a process
        assert BACKEND.target(Request(triple=f"{arch}-unknown-none-eabi")).pointer_bits == 32
    with pytest.raises(SourceError, match="XL5101"):
        BACKEND.target(Request(cpu="help"))


@pytest.mark.parametrize(
    "triple,cpu,magic",
    [
        ("aarch64-unknown-linux-gnu", "cortex-a72", b"\x7fELF\x02"),
        ("armv7-unknown-linux-gnueabihf", "cortex-a9", b"\x7fELF\x01"),
        ("thumbv7em-unknown-none-eabihf", "cortex-m4", b"\x7fELF\x01"),
        ("riscv64-unknown-linux-gnu", "", b"\x7fELF\x02"),
        ("wasm32-unknown-unknown", "", b"\0asm"),
        ("i686-unknown-linux-gnu", "", b"\x7fELF\x01"),
    ],
)
@pytest.mark.sampled(4)
def test_objects_for_other_machines(triple: str, cpu: str, magic: bytes) -> None:
    target = BACKEND.target(Request(triple=triple, cpu=cpu))
    assert target.pointer_bits == (64 if "64" in triple else 32)
    program = program_of(sample(max(1, target.lanes(DType.F32))))
    objects = [*link.members(BACKEND.emit_object(program, target)).values()]
    assert len(objects) == 1 and objects[0].startswith(magic)
    if triple.startswith("aarch64"):
        text = BACKEND.asm(program, target)
        assert "run:" in text and "v0.4s" in text


def test_another_machines_program_is_not_loaded(tmp_path) -> None:  # type: ignore[no-untyped-def]
    other = (
        "aarch64-unknown-linux-gnu"
        if "aarch64" not in host().triple
        else "x86_64-unknown-linux-gnu"
    )
    target = BACKEND.target(Request(triple=other))
    program = program_of(sample(4))
    made = BACKEND.build(BACKEND.emit(program, target), tmp_path)
    with pytest.raises(UnsupportedError, match="XL5109"):
        BACKEND.load(made, program, target)


@pytest.mark.parametrize(
    "triple", ["aarch64-unknown-linux-gnu", "armv7-unknown-linux-gnueabihf", "aarch64-apple-darwin"]
)
def test_the_pool_compiles_elsewhere(triple: str) -> None:
    from xlac_cpu.llvm import objects

    assert objects.object_code(pool_text(Machine(triple, "")))[:4] in (
        b"\x7fELF",
        b"\xcf\xfa\xed\xfe",
    )


def test_products_used_twice_stay_products() -> None:
    """AArch64's code generator would contract them into one of their uses and round the other
    differently.
    """

    def body(b, buffers):  # type: ignore[no-untyped-def]
        product = b.let("p", apply(P.MUL, load(buffers["x"], 0), load(buffers["x"], 1)))
        b.store(buffers["y"], 0, apply(P.ADD, product, load(buffers["x"], 2)))
        b.store(buffers["y"], 1, apply(P.SUB, product, load(buffers["x"], 3)))

    program = program_of(kernel_of(body, {"x": (DType.F32, 4)}, {"y": (DType.F32, 2)}))
    text = BACKEND.asm(
        program, BACKEND.target(Request(triple="aarch64-unknown-linux-gnu", cpu="cortex-a72"))
    )
    assert "fmul" in text and "fadd" in text and "fmadd" not in text and "fmsub" not in text
