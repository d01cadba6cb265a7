"""The machine compiled for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

DOTS = {
    "vpdpbusd": (DType.U32,),
    "usdot": (DType.U32,),
    "sdot": (DType.I32,),
    "pmaddwd": (DType.U32, DType.I32),
}
BIG_ENDIAN = frozenset(
    "s390x powerpc powerpc64 ppc ppc64 mips mips64 sparc sparcv9 aarch64_be armeb thumbeb".split()
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A CPU as LLVM names it, and its properties that affect the generated text."""

    triple: str
    cpu: str
    features: str = ""
    vector_bytes: int = 0
    half: bool = False  # converts f16 in hardware
    fma: bool = False
    lacks: str = ""  # functions for which LLVM would call the C library: "floor.f32 fma.f64 …"
    masked: bool = False
    gathers: bool = False
    dots: str = ""  # what computes dot products of bytes: vpdpbusd, pmaddwd, sdot or "sdot usdot"
    tables: str = ""  # what looks up bytes in a table of 256: vpermi2b, pshufb or tbl
    matrix: bool = False  # AMX multiplies tiles of bytes, and this process may use it
    size: bool = False
    tagged: bool = False  # whether functions name their CPU: a module has those of several

    @property
    def arch(self) -> str:
        """The triple's first part."""
        return self.triple.partition("-")[0]

    @property
    def is_x86(self) -> bool:
        """Whether it is an x86 of 32 or 64 bits."""
        return self.arch in ("x86_64", "i386", "i486", "i586", "i686")

    @property
    def big_endian(self) -> bool:
        """Whether the highest byte of a number lies first in memory."""
        return self.arch in BIG_ENDIAN

    @property
    def dot_kinds(self) -> frozenset[DType]:
        """The types of the words whose bytes a dot product takes as the unsigned or signed ones."""
        return frozenset(kind for word in self.dots.split() for kind in DOTS[word])

    @property
    def pairs(self) -> bool:
        """Whether a dot product of bytes is two of pairs of i16, to which they are widened."""
        return self.dots == "pmaddwd"

    @property
    def fence(self) -> str:
        """The intrinsic that orders streaming stores."""
        return "llvm.x86.sse.sfence" if self.is_x86 and self.vector_bytes else ""

    @property
    def pointer_bits(self) -> int:
        """32 or 64."""
        wide = ("64", "alpha", "s390x", "sparcv9", "nvptx64")
        return (
            64 if any(word in self.arch for word in wide) and not self.arch.endswith("_32") else 32
        )

    @property
    def registers(self) -> int:
        """The number of vector registers."""
        if self.is_x86:
            return 32 if self.vector_bytes == 64 else 16 if self.arch == "x86_64" else 8
        return 32 if self.pointer_bits == 64 else 16

    @property
    def attributes(self) -> str:
        """The attributes of every function."""
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
                # keeps LLVM from turning loops into calls of memset
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
        """All fields as JSON; `Machine(**settings)` is equal."""
        return asdict(self)

    @staticmethod
    def of(target: Target) -> Machine:
        """The machine of a Target that this backend made."""
        return Machine(**json.loads(target.facts))
