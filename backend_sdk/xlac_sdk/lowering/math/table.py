"""The table from primitives to their expansions."""

from __future__ import annotations

from xlac_sdk.kernel_ir.primitives import Primitive as P
from xlac_sdk.lowering.math import (
    comparison,
    error,
    exponential,
    integers,
    logarithm,
    normal,
    power,
    rounding,
    trigonometric,
)
from xlac_sdk.lowering.math.repairs import REPAIRS
from xlac_sdk.lowering.math.writer import Expansion

EXPANSIONS: dict[P, Expansion] = {
    P.LE: comparison.less_equal,
    P.NE: comparison.not_equal,
    P.NOT: comparison.invert,
    P.NEG: comparison.negate,
    P.ABS: comparison.absolute,
    P.MAX: comparison.maximum,
    P.MIN: comparison.minimum,
    P.FMA: comparison.fused,
    P.FLOOR: rounding.floor,
    P.CEIL: rounding.ceil,
    P.TRUNC: rounding.trunc,
    P.ROUND: rounding.nearest,
    P.REM: rounding.remainder,
    P.SQRT: rounding.root,
    P.RSQRT: rounding.reciprocal_root,
    P.EXP: exponential.exp,
    P.EXP2: exponential.exp2,
    P.EXPM1: exponential.expm1,
    P.TANH: exponential.tanh,
    P.SIGMOID: exponential.sigmoid,
    P.LOG: logarithm.log,
    P.LOG2: logarithm.log2,
    P.LOG1P: logarithm.log1p,
    P.POW: power.power,
    P.ERF: error.erf,
    P.GELU: normal.gelu,
    P.SIN: trigonometric.sin,
    P.COS: trigonometric.cos,
    P.ATAN2: trigonometric.atan2,
    P.LDEXP: exponential.ldexp,
    P.POPCNT: integers.count_ones,
    P.CLZ: integers.leading_zeros,
    P.DOT4: integers.dot4,
    P.DOT2: integers.dot2,
    P.LOOKUP: integers.lookup,
}

FORMS = {**EXPANSIONS, **REPAIRS}
"""With those of primitives that every target spells, where its own are weak."""
