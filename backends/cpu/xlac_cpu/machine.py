"""What is known of the machine compiled for, and how it is found out.

The host's features come from LLVM. Any other CPU is asked by compiling a few instructions for it in
a process of its own and reading the assembly: no table of CPUs to keep, and LLVM may abort without
harm.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from xlac_cpu.emit.arithmetic import NATIVE
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.support import limits
from xlac_sdk.target import Request, Target


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as LLVM names it, and what of it changes the text we write."""

    triple: str
    cpu: str
    features: str = ""
    vector_bytes: int = 0
    half: bool = False  # converts f16 in hardware
    fma: bool = False
    lacks: str = ""  # what LLVM would call the C library for: "floor.f32 fma.f64 …"
    masked: bool = False
    gathers: bool = False
    size: bool = False
    tagged: bool = False  # functions say which CPU they are for: a module holds those of several

    @property
    def arch(self) -> str:
        return self.triple.partition("-")[0]

    @property
    def is_x86(self) -> bool:
        return self.arch in ("x86_64", "i386", "i486", "i586", "i686")

    @property
    def fence(self) -> str:
        """The intrinsic that orders streaming stores."""
        return "llvm.x86.sse.sfence" if self.is_x86 and self.vector_bytes else ""

    @property
    def pointer_bits(self) -> int:
        wide = ("64", "alpha", "s390x", "sparcv9", "nvptx64")
        return (
            64 if any(word in self.arch for word in wide) and not self.arch.endswith("_32") else 32
        )

    @property
    def registers(self) -> int:
        if self.is_x86:
            return 32 if self.vector_bytes == 64 else 16 if self.arch == "x86_64" else 8
        return 32 if self.pointer_bits == 64 else 16

    @property
    def attributes(self) -> str:
        """Of every function."""
        bits = max(128, 8 * self.vector_bytes)
        widths = (
            f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
            if self.is_x86
            else ""
        )
        return " ".join(
            word
            for word in (
                "nounwind",
                # no loop becomes a call of a library's memset
                'minsize optsize "no-builtins"' if self.size else "",
                '"no-trapping-math"="true"',
                widths,
                f'"target-cpu"="{self.cpu}" "target-features"="{self.features}"'
                if self.tagged
                else "",
            )
            if word
        )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine that a Target made here describes."""
        return Machine(**json.loads(target.facts))


def target(request: Request) -> Target:
    """The Target for a request; raises SourceError for a triple or CPU that LLVM does not know."""
    found = (
        _native(request.size)
        if not (request.cpu or request.triple or request.features)
        else _asked(request)
    )
    own = found.triple == host().triple and not request.cpu
    l1, l2, l3 = caches() if own else (32 << 10, 512 << 10, 8 << 20)
    # AVX-512 scales by powers of two
    has = {Primitive.FMA: found.fma, Primitive.LDEXP: found.is_x86 and found.masked}
    absent = {primitive for primitive, there in has.items() if not there}
    pairs = (word.split(".") for word in found.lacks.split())
    lacks = {(Primitive(name), DType(dtype)) for name, dtype in pairs}
    return Target(
        name="cpu",
        vector_bytes=found.vector_bytes,
        vector_registers=found.registers,
        masked=found.masked,
        gathers=found.gathers,
        fma=found.fma,
        threads=max(1, request.threads),
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
        pointer_bits=found.pointer_bits,
        primitives=NATIVE - absent,
        # fmod of the C library is 6 to 200 times slower than the SDK's expansion
        lacks=frozenset(lacks | {(Primitive.REM, d) for d in DType if d.is_float}),
        size=request.size,
        facts=json.dumps(found.settings, sort_keys=True),
    )


ROUNDINGS = " ".join(
    f"{name}.{dtype}" for name in ("floor", "ceil", "trunc", "round") for dtype in ("f32", "f64")
)


@cache
def host() -> Machine:
    """This computer. Whoever compiles asks for it first: what LLVM took of memory as it was loaded
    is given back here.
    """
    import llvmlite.binding as llvm

    from xlac_cpu.llvm import resident

    resident.give_back()
    flags = llvm.get_host_cpu_features()
    features = ",".join(sorted(("+" if on else "-") + name for name, on in flags.items()))
    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    arch = triple.partition("-")[0]
    if arch not in ("x86_64", "i686"):
        simd = arch in ("aarch64", "arm64")
        return Machine(triple, cpu, features, 16 if simd else 0, half=simd, fma=simd)
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
    )


def _native(size: bool) -> Machine:
    found = host()
    return Machine(**{**asdict(found), "size": size})


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
        close = get_close_matches(triple, TRIPLES, n=1, cutoff=0.5)
        hint = (
            f"did you mean '{close[0]}'?"
            if close
            else f"for example {TRIPLES[0]}; four parts are surest"
        )
        raise SourceError(
            Diagnostic("XL5102", f"LLVM has no code generator for the triple '{triple}'", hint=hint)
        )
    if cpu and cpu not in answer["cpus"]:
        close = get_close_matches(cpu, answer["cpus"], n=1)
        some = ", ".join(answer["cpus"][:8])
        hint = f"did you mean '{close[0]}'?" if close else f"known for {triple}: {some}, …"
        raise SourceError(Diagnostic("XL5101", f"unknown CPU '{cpu}'", hint=hint))
    _check_features(more, answer["features"], triple)
    facts = {
        name: answer[name] for name in ("vector_bytes", "half", "fma", "lacks", "masked", "gathers")
    }
    return Machine(triple, cpu, features, **facts, size=request.size)


# What every processor of a kind has though LLVM takes it for granted only with a CPU's name:
# systems need it.
# of 32-bit Arms, those with instructions of two bytes that do all that those of four do
THUMB = r"armv(7|8)(?!\.?\d?-?m)"
USUAL = ((r"riscv64-.*linux", "+m,+a,+f,+d,+c"), (r"wasm32", "+simd128"))


def _check_features(names: list[str], known: list[str], triple: str) -> None:
    """Raises SourceError for a feature that LLVM does not know: it would only print a warning."""
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = (
                f"did you mean '{close[0]}'?"
                if close
                else f"known for {triple}: {', '.join(known[:8])}, …"
            )
            raise SourceError(Diagnostic("XL5101", f"unknown feature '{name}' of a CPU", hint=hint))


def _spelled(triple: str) -> bool:
    """Whether the architecture of an Arm, the system and the environment are names that LLVM knows.

    It takes any others for none at all.
    """
    arch = triple.partition("-")[0]
    if re.match("(arm|thumb)(?!64)", arch) and not re.fullmatch(ARM, arch):
        return False
    system, _, environment = re.sub(r"[\d.]+$", "", "-".join(triple.split("-")[2:])).partition("-")
    return system in SYSTEMS and environment in ENVIRONMENTS


ARM = r"(arm|thumb)(eb)?(v[4-9](\.[1-9])?([a-z]|t2|tej?|em|kz|ve|hl|s-m|m\.(base|main))?(eb)?)?"
SYSTEMS = ("", *"aix darwin elf emscripten freebsd fuchsia haiku hurd ios linux macosx netbsd none openbsd tvos uefi unknown "
           "wasi watchos windows xros eabi eabihf gnu musl".split())  # fmt: skip
ENVIRONMENTS = ("", *"android androideabi coff cygnus eabi eabihf elf gnu gnueabi gnueabihf gnueabihft gnueabit gnuf "
                "gnux itanium macabi macho msvc musl musleabi musleabihf musl muslx ohos simulator uclibc".split())  # fmt: skip
TRIPLES = (
    "x86_64-unknown-linux-gnu", "i686-unknown-linux-gnu", "aarch64-unknown-linux-gnu",
    "armv7-unknown-linux-gnueabihf", "thumbv7em-unknown-none-eabihf", "riscv64-unknown-linux-gnu",
    "riscv32-unknown-none-elf", "wasm32-unknown-unknown", "aarch64-apple-darwin", "x86_64-apple-darwin",
    "x86_64-pc-windows-msvc", "powerpc64le-unknown-linux-gnu", "s390x-unknown-linux-gnu",
)  # fmt: skip


@cache
def probe(triple: str, cpu: str, features: str) -> dict[str, Any]:
    """What `xlac_cpu.llvm.worker` finds out about a CPU; `{"triple": …}` when LLVM does not know
    the triple.
    """
    return dict(
        json.loads(ask({"do": "probe", "triple": triple, "cpu": cpu, "features": features}))
    )


def ask(question: dict[str, Any]) -> bytes:
    """Has a process of its own do something with LLVM that might end it."""
    allowed = limits.room()
    with limits.ended_in_time():
        done = subprocess.run(
            [sys.executable, "-m", "xlac_cpu.llvm.worker"],
            input=json.dumps(
                {**question, "memory": allowed} if "text" in question else question
            ).encode(),
            capture_output=True,
            check=False,
            timeout=limits.left(),
        )
    if (
        done.returncode
        and allowed is not None
        and (done.returncode < 0 or b"memory" in done.stderr.lower())
    ):
        limits.full()
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [
            f"it ended with {done.returncode}"
        ]
        reason = next((line for line in lines if "LLVM ERROR" in line), lines[-1])
        hint = "--target c writes C for any compiler; LLVM's code for this target may be unfinished, or want another --cpu"
        problem = f"LLVM cannot compile this for {question['triple']}: {reason}"
        raise UnsupportedError(Diagnostic("XL5107", problem, hint=hint))
    return done.stdout


@cache
def caches() -> tuple[int, int, int]:
    """Bytes of the first, second and third data cache of this computer, or modest guesses."""
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
