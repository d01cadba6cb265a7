"""Conversions between f32 and 16-bit floats, which values have as their bits, for languages whose
memory may hold such floats (`Dialect.half`), as OpenCL C: one value or a native vector at once. A
NaN keeps its sign and the bits that fit, where a driver may store another: reinterpreting the bits
of a half widens and narrows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect

WIDEN = """{before} {wide} f32_of_f16{name}({bits} value)
{{
    return vload_half{lanes}(0, (const {half} *)&value);
}}"""
NARROW = """{before} {bits} f16_of_f32{name}({wide} value)
{{
    const {word} word = as_{word}(value);
    const {word} nan = (word >> 16 & 0x8000) | 0x7e00 | (word >> 13 & 0x3ff);
    {bits} made;
    vstore_half{lanes}_rte(value, 0, ({half} *)&made);
    return {chosen};
}}"""
CHOSEN = "isnan(value) ? ({bits})nan : made"
CHOSEN_LANES = "select(made, convert_{bits}(nan), convert_{flags}(isnan(value)))"


def halves(dialect: Dialect, before: str) -> Mapping[str, str]:
    """The functions by name; `before` are their declaration specifiers. Empty for a dialect without
    such memory.
    """
    known = dict[str, str]()
    for lanes in (1, *dialect.native) if dialect.half else ():
        count, name = (str(lanes), f"x{lanes}") if lanes > 1 else ("", "")
        words = {
            "before": before,
            "wide": f"{dialect.types[DType.F32]}{count}",
            "bits": f"{dialect.types[DType.F16]}{count}",
            "word": f"{dialect.types[DType.U32]}{count}",
            "flags": f"{dialect.types[DType.I16]}{count}",
            "lanes": count,
            "name": name,
            "half": dialect.half,
        }
        known[f"f32_of_f16{name}"] = WIDEN.format(**words)
        chosen = (CHOSEN_LANES if count else CHOSEN).format(**words)
        known[f"f16_of_f32{name}"] = NARROW.format(**words, chosen=chosen)
    return known
