"""What CUDA's text spells itself, and a program in that, every kernel a grid."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.grid import spread
from xlac_sdk.legalize import legalize
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Program
from xlac_sdk.rewrite_program import with_kernels
from xlac_sdk.target import Target

P = Primitive
NATIVE = frozenset(Primitive) - {P.SIGMOID}  # 1 / (1 + exp(-x)) loses the small results
LACKS = frozenset({(P.POW, DType.F32), (P.ATAN2, DType.F32)})  # CUDA's are off by up to 4 and 3 units in the last place


def lowered(program: Program, target: Target) -> Program:
    """The program as it is launched: the kernels that the text has, with the same names and parameters."""
    fast = program.facts.get("precision") == "fast"
    return with_kernels(program, lambda kernel: spread(legalize(kernel, target, fast)))
