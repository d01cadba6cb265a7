"""This computer: its processor as LLVM describes it."""

from __future__ import annotations

from functools import cache

from xlac_cpu.llvm import resident, tile_registers
from xlac_cpu.machine import Machine
from xlac_cpu.processors import named

ROUNDINGS = " ".join(
    f"{name}.{dtype}" for name in ("floor", "ceil", "trunc", "round") for dtype in ("f32", "f64")
)


@cache
def host() -> Machine:
    """This computer. Compiling calls this first: memory that loading LLVM took is released here."""
    import llvmlite.binding as llvm

    resident.give_back()
    flags = llvm.get_host_cpu_features()
    features = ",".join(sorted(("+" if on else "-") + name for name, on in flags.items()))
    triple, cpu = llvm.get_process_triple(), named(llvm.get_host_cpu_name(), flags)
    arch = triple.partition("-")[0]
    if arch not in ("x86_64", "i686"):
        simd = arch in ("aarch64", "arm64")
        words = {"sdot": "dotprod", "usdot": "i8mm"}
        dots = " ".join(word for word, flag in words.items() if simd and flags.get(flag))
        tables = "tbl" if simd else ""
        width = 16 if simd else 0
        return Machine(triple, cpu, features, width, simd, simd, dots=dots, tables=tables)
    wide = all(flags.get(f"avx512{part}") for part in ("f", "bw", "dq", "vl"))
    width = 64 if wide else 32 if flags.get("avx2") else 16
    return Machine(
        triple,
        cpu,
        features,
        width,
        half=bool(flags.get("f16c")),
        fma=bool(flags.get("fma")),
        lacks="" if flags.get("sse4.1") else ROUNDINGS,
        masked=wide,
        gathers=wide,
        tables="vpermi2b"
        if wide and flags.get("avx512vbmi")
        else "pshufb"
        if flags.get("avx2")
        else "",
        matrix=bool(wide and flags.get("amx-int8")) and tile_registers.permitted(),
        dots="vpdpbusd" if flags.get("avx512vnni" if wide else "avxvnni") else "pmaddwd",
    )
