"""This computer: its processor as LLVM describes it, and its caches."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

from xlac_cpu.llvm import resident
from xlac_cpu.machine import Machine

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
    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
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
        dots="vpdpbusd" if flags.get("avx512vnni" if wide else "avxvnni") else "pmaddwd",
    )


@cache
def caches() -> tuple[int, int, int]:
    """Bytes of the first-, second- and third-level data caches of this computer, or conservative
    defaults.
    """
    found: dict[int, int] = {}
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (entry / name).read_text().strip() for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                found[int(level)] = int(size.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(
                    size[-1], 0
                )
        except (OSError, ValueError):
            continue
    if platform.system() == "Darwin" and not found:
        for number, name in ((1, "hw.l1dcachesize"), (2, "hw.l2cachesize"), (3, "hw.l3cachesize")):
            told = subprocess.run(
                ["sysctl", "-n", name], capture_output=True, text=True, check=False
            ).stdout.strip()
            if told.isdigit() and int(told):
                found[number] = int(told)
    return found.get(1, 32 << 10), found.get(2, 512 << 10), found.get(3, found.get(2, 8 << 20))
