"""Exchanges between threads through shared memory, as functions for languages without an
instruction for it.

A dialect that uses them says

    exchange="exchange_{d}({0}, {1}, {scratch})"
    scratch="…declares {name}, an array of {threads} words of the widest integer in shared memory"

and every thread of a block reaches each exchange, as kernel IR promises (`kernel_ir/grid.py`). The
words are two for each thread, of which exchanges take turns: when one writes again what an earlier
one read, all threads have passed the barrier between them. So an exchange has one barrier, of which
drivers for processors compile few quickly and many very slowly.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.kernel_ir.expressions import Space

TEXT = """{before} {kind} exchange_{name}({kind} value, int distance, {shared}{word} *scratch)
{{
    const uint32_t thread = (uint32_t){thread};
    *({shared}{kind} *)(scratch + thread) = value;
    {barrier};
    return *({shared}{kind} *)(scratch + (thread ^ (uint32_t)distance));
}}"""


def exchanges(dialect: Dialect, before: str) -> Mapping[str, str]:
    """The functions by name, one for each type; `before` are their declaration specifiers. Empty
    for a dialect that needs none.
    """
    if not dialect.scratch:
        return {}
    # 64-bit integers that the language lacks are exchanged as words
    word = TYPES[DType.U64 if DType.U64 in dialect.types else DType.U32]
    return {
        f"exchange_{dtype}": TEXT.format(
            before=before,
            kind=dialect.types[dtype],
            word=word,
            name=dtype.value,
            shared=dialect.spaces.get(Space.SHARED, ""),
            thread=dialect.thread,
            barrier=dialect.barrier,
        )
        for dtype in DType
        if dtype in dialect.types
    }
