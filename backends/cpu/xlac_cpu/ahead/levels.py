"""The levels of x86-64 of the psABI, and their detection by cpuid when the artefact runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlac_cpu.llvm.host import host
from xlac_cpu.machine import Machine
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError

LEVELS = {"x86-64": 1, "x86-64-v2": 2, "x86-64-v3": 3, "x86-64-v4": 4}
XSAVE = 1 << 27  # OSXSAVE: xgetbv may be used


def bits(*numbers: int) -> int:
    """A word with these bits set."""
    return sum(1 << number for number in numbers)


@dataclass(frozen=True, slots=True)
class Level:
    """The feature bits that a level adds: of cpuid's leaves 1 (ecx), 7 (ebx) and 0x80000001 (ecx),
    and of xgetbv's register 0.
    """

    name: str
    one_c: int
    seven_b: int = 0
    eight_c: int = 0
    state: int = 0


PSABI = (
    # sse3 ssse3 cmpxchg16b sse4.1 sse4.2 popcnt; lahf
    Level("v2", bits(0, 9, 13, 19, 20, 23), eight_c=bits(0)),
    # fma movbe xsave osxsave avx f16c; bmi1 avx2 bmi2; lzcnt; the system saves xmm and ymm
    Level("v3", bits(12, 22, 26, 27, 28, 29), bits(3, 5, 8), bits(5), bits(1, 2)),
    # avx512 f dq cd bw vl; the system saves the mask registers and zmm
    Level("v4", 0, bits(16, 17, 28, 30, 31), 0, bits(5, 6, 7)),
)


def levels(machines: Sequence[Machine]) -> list[int]:
    """The level of each variant, ascending. Raises UnsupportedError for processors that cannot be
    distinguished at run time.
    """
    levels = [LEVELS.get(m.cpu, 0) if m.arch == "x86_64" else 0 for m in machines]
    if 0 in levels:
        problem = (
            f"nothing can choose between processors like '{machines[levels.index(0)].cpu}' when it "
            "runs"
        )
        raise UnsupportedError(
            Diagnostic("XL5112", problem, hint=f"a list is made of {', '.join(LEVELS)}")
        )
    if levels != sorted(set(levels)):
        raise SourceError(
            Diagnostic(
                "XL5112", "the processors of a list go from the least to the most, each once"
            )
        )
    if host().arch != "x86_64":
        problem = "code that asks the processor can be assembled on x86-64 only"
        raise UnsupportedError(
            Diagnostic("XL5112", problem, hint="build for one processor at a time")
        )
    return levels
