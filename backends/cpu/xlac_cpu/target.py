"""The Target for a request: the facts of the CPU compiled for, and how they are determined.

The host's features come from LLVM. Other CPUs are probed by compiling a few instructions for them
in a separate process and reading the assembly: no table of CPUs needs maintenance, and LLVM may
abort without harm.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from xlac_cpu.emit.arithmetic import NATIVE
from xlac_cpu.llvm.host import host
from xlac_cpu.llvm.process import ask
from xlac_cpu.machine import Machine
from xlac_cpu.processors import shipped
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.matrix_tiles import MULTIPLY
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.machine.system_facts import system_facts
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest
from xlac_sdk.target import Request, Target


def target(request: Request) -> Target:
    """The Target for a request; raises SourceError for a triple or CPU that LLVM does not know."""
    request.refuse("cpu", "arch", hint="--cpu names a processor, --triple another machine")
    machine = (
        _native(request.size)
        if not (request.cpu or request.triple or request.features)
        else _asked(request)
    )
    own = machine.triple == host().triple and request.cpu in ("", "native")
    facts = shipped(machine.cpu, system_facts() if own else {})
    hardware = replace(facts, **request.hardware_facts("cpu"))
    # AVX-512 scales by powers of two, and permutes a register of 16 lanes
    wide = machine.is_x86 and machine.masked
    dots = machine.dot_kinds
    has = {Primitive.FMA: machine.fma, Primitive.LDEXP: wide, Primitive.LOOKUP: wide}
    has |= {Primitive.DOT4: bool(dots), Primitive.DOT2: machine.pairs}
    absent = {primitive for primitive, there in has.items() if not there}
    pairs = (word.split(".") for word in machine.lacks.split())
    lacks = {(Primitive(name), DType(dtype)) for name, dtype in pairs}
    lacks |= {(Primitive.DOT4, kind) for kind in (DType.U32, DType.I32) if kind not in dots}
    lacks |= {(Primitive.LOOKUP, DType.F64)}  # a register has 8
    return Target(
        name="cpu",
        languages=frozenset({"c", "ll"}),
        vector_bytes=machine.vector_bytes,
        vector_registers=machine.registers,
        masked=machine.masked,
        gathers=machine.gathers,
        fma=machine.fma,
        threads=max(1, request.threads),
        hardware=hardware,
        unmeasured=None if hardware == facts else facts,
        pointer_bits=machine.pointer_bits,
        byte_tables=bool(machine.tables),
        byte_words=machine.tables == "vpermi2b",
        primitives=NATIVE - absent,
        # a program that is built ahead of time would have to ask the system for them
        instructions=frozenset(MULTIPLY.values() if machine.matrix and not request.ahead else ()),
        # the C library's fmod is 6 to 200 times slower than the SDK's expansion
        lacks=frozenset(lacks | {(Primitive.REM, d) for d in DType if d.is_float}),
        size=request.size,
        collectives=machine.triple == host().triple,  # code built ahead of time has none
        host_calls=machine.triple == host().triple and not request.ahead,
        facts=json.dumps(machine.settings, sort_keys=True),
    )


def _native(size: bool) -> Machine:
    machine = host()
    return Machine(**{**asdict(machine), "size": size})


def _asked(request: Request) -> Machine:
    triple = request.triple or host().triple
    cpu, *more = request.cpu.split("+")
    if cpu == "native" or (not cpu and triple == host().triple):
        cpu = host().cpu
    usual = "" if cpu else next((f for pattern, f in USUAL if re.match(pattern, triple)), "")
    small = "+thumb-mode" if request.size and re.match(THUMB, triple) else ""
    features = ",".join(
        part for part in (usual, small, request.features, *(f"+{name}" for name in more)) if part
    )
    answer: dict[str, Any] = (
        probe(triple, cpu, features) if _spelled(triple) else {"triple": triple}
    )
    if "triple" in answer:
        hint = nearest(triple, TRIPLES, f"for example {TRIPLES[0]}; four parts are surest", 0.5)
        raise SourceError(
            Diagnostic("XL5102", f"LLVM has no code generator for the triple '{triple}'", hint=hint)
        )
    if cpu and cpu not in answer["cpus"]:
        some = ", ".join(answer["cpus"][:8])
        hint = nearest(cpu, answer["cpus"], f"known for {triple}: {some}, …")
        raise SourceError(Diagnostic("XL5101", f"unknown CPU '{cpu}'", hint=hint))
    _check_features(more, answer["features"], triple)
    facts = {
        name: answer[name]
        for name in ("vector_bytes", "half", "fma", "lacks", "masked", "gathers", "dots", "tables")
    }
    return Machine(triple, cpu, features, **facts, size=request.size)


# Features that every processor of a kind has, but LLVM enables only with a CPU's name; systems need
# them.
THUMB = r"armv(7|8)(?!\.?\d?-?m)"
USUAL = ((r"riscv64-.*linux", "+m,+a,+f,+d,+c"), (r"wasm32", "+simd128"))


def _check_features(names: list[str], known: list[str], triple: str) -> None:
    """Raises SourceError for an unknown feature, about which LLVM would only print a warning."""
    for name in names:
        if name not in known:
            hint = nearest(name, known, f"known for {triple}: {', '.join(known[:8])}, …")
            raise SourceError(Diagnostic("XL5101", f"unknown feature '{name}' of a CPU", hint=hint))


def _spelled(triple: str) -> bool:
    """Whether the architecture of an Arm, the system and the environment of a triple are names that
    LLVM knows.

    LLVM ignores unknown ones.
    """
    arch = triple.partition("-")[0]
    if re.match("(arm|thumb)(?!64)", arch) and not re.fullmatch(ARM, arch):
        return False
    system, _, environment = re.sub(r"[\d.]+$", "", "-".join(triple.split("-")[2:])).partition("-")
    return system in SYSTEMS and environment in ENVIRONMENTS


ARM = r"(arm|thumb)(eb)?(v[4-9](\.[1-9])?([a-z]|t2|tej?|em|kz|ve|hl|s-m|m\.(base|main))?(eb)?)?"
_SYSTEMS = (
    "aix darwin elf emscripten freebsd fuchsia haiku hurd ios linux macosx netbsd none openbsd "
    "tvos uefi unknown wasi watchos windows xros eabi eabihf gnu musl"
)
SYSTEMS = ("", *_SYSTEMS.split())
_ENVIRONMENTS = (
    "android androideabi coff cygnus eabi eabihf elf gnu gnueabi gnueabihf gnueabihft gnueabit "
    "gnuf gnux itanium macabi macho msvc musl musleabi musleabihf musl muslx ohos simulator uclibc"
)
ENVIRONMENTS = ("", *_ENVIRONMENTS.split())
TRIPLES = (
    "x86_64-unknown-linux-gnu", "i686-unknown-linux-gnu", "aarch64-unknown-linux-gnu",
    "armv7-unknown-linux-gnueabihf", "thumbv7em-unknown-none-eabihf", "riscv64-unknown-linux-gnu",
    "riscv32-unknown-none-elf", "wasm32-unknown-unknown", "aarch64-apple-darwin",
    "x86_64-apple-darwin", "x86_64-pc-windows-msvc", "powerpc64le-unknown-linux-gnu",
    "s390x-unknown-linux-gnu",
)  # fmt: skip


@cache
def probe(triple: str, cpu: str, features: str) -> dict[str, Any]:
    """The result of `xlac_cpu.llvm.worker` for a CPU; `{"triple": …}` if LLVM does not know the
    triple.
    """
    return dict(
        json.loads(ask({"do": "probe", "triple": triple, "cpu": cpu, "features": features}))
    )
