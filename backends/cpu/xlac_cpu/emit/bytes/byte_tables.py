"""Lookups in tables of 256 bytes as byte permutations of vector registers."""

from __future__ import annotations

from xlac_cpu.emit.lanes import picked
from xlac_cpu.emit.spelling import constant, vector
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Access, Apply, Expr, Load
from xlac_sdk.kernel_ir.primitives import Primitive

ENTRIES = 256
PARTS = {"vpermi2b": 64, "pshufb": 32, "tbl": 16}  # lanes of one instruction, in bytes
FEWEST = 4  # with fewer lanes, scalar loads are as fast
HALF = 16  # bytes of a 128-bit lane, within which pshufb and tbl permute


def looked_up(node: Load, tables: str) -> Expr | None:
    """The u8 index of a load from a table of 256 bytes, if the load can be a permutation; else
    None.

    `tables` names the machine's permutation instruction, as in `Machine`; empty if it has none.
    """
    buffer = node.buffer
    if tables not in PARTS or node.mask is not None or node.lanes < FEWEST:
        return None
    if buffer.size != ENTRIES or buffer.dtype.nbytes != 1 or buffer.dtype is DType.BOOL:
        return None
    index = node.index
    if buffer.access is not Access.READ or index.lanes != node.lanes:
        return None
    while isinstance(index, Apply) and index.primitive is Primitive.CAST:
        (index,) = index.operands
        if index.dtype is DType.U8:
            return index
    return None


def spell(w: LlvmWriter, tables: str, table: str, index: str, lanes: int) -> str:
    """Writes the lookup of `lanes` entries at the u8 vector `index`. `table` is its address, an
    argument of the function.
    """
    full = PARTS[tables]
    if lanes > full:
        half, rest = lanes // 2, lanes - lanes // 2
        parts = []
        for first, count in ((0, half), (half, rest)):
            part = picked(w, vector("i8", lanes), index, range(first, first + count))
            looked_up = spell(w, tables, table, part, count)
            parts.append(picked(w, vector("i8", count), looked_up, _filled(count, rest)))
        every = [*range(half), *range(rest, 2 * rest)]
        return picked(w, vector("i8", rest), parts[0], every, parts[1])
    wide = index if lanes == full else picked(w, vector("i8", lanes), index, _filled(lanes, full))
    by = {"vpermi2b": _by_quarters, "pshufb": _by_bits, "tbl": _by_ranges}[tables]
    looked_up = by(w, table, wide)
    return looked_up if lanes == full else picked(w, vector("i8", full), looked_up, range(lanes))


def _by_quarters(w: LlvmWriter, table: str, index: str) -> str:
    """AVX-512 VBMI: the low seven bits index 128 entries; the eighth selects one of two halves."""
    kind, name = vector("i8", 64), "llvm.x86.avx512.vpermi2var.qi.512"
    parts = [_part(w, table, first, 64) for first in range(0, ENTRIES, 64)]
    low, high = (
        w.intrinsic(name, kind, (kind, a), (kind, index), (kind, b))
        for a, b in (parts[:2], parts[2:])
    )
    second = w.op(f"icmp slt {kind} {index}, zeroinitializer")
    return w.op(f"select {vector('i1', 64)} {second}, {kind} {high}, {kind} {low}")


def _by_bits(w: LlvmWriter, table: str, index: str) -> str:
    """AVX2: the low four bits index each of 16 parts; blends on the other bits select the part."""
    kind, short = vector("i8", 32), vector("i16", 16)
    low = w.op(f"and {kind} {index}, {constant('15', 'i8', 32)}")
    values = []
    for first in range(0, ENTRIES, HALF):
        part = _part(w, table, first, HALF)
        twice = picked(w, vector("i8", HALF), part, [*range(HALF), *range(HALF)])
        values.append(w.intrinsic("llvm.x86.avx2.pshuf.b", kind, (kind, twice), (kind, low)))
    words = w.op(f"bitcast {kind} {index} to {short}")
    for bit in range(4, 8):  # shifted to the top bit of its byte, which blends test
        moved = w.op(f"shl {short} {words}, {constant(str(7 - bit), 'i16', 16)}")
        chosen = w.op(f"bitcast {short} {moved} to {kind}")
        values = [
            w.intrinsic("llvm.x86.avx2.pblendvb", kind, (kind, a), (kind, b), (kind, chosen))
            for a, b in zip(values[::2], values[1::2], strict=True)
        ]
    return values[0]


def _by_ranges(w: LlvmWriter, table: str, index: str) -> str:
    """NEON: 64 entries at a time; tbx leaves bytes whose index is out of its range unchanged."""
    kind = vector("i8", HALF)
    result = ""
    for first in range(0, ENTRIES, 64):
        by = constant(str(first - ENTRIES if first > 127 else first), "i8", HALF)
        inside = w.op(f"sub {kind} {index}, {by}") if first else index
        parts = [(kind, _part(w, table, first + k, HALF)) for k in range(0, 64, HALF)]
        name = f"llvm.aarch64.neon.{'tbx4' if first else 'tbl4'}.v16i8"
        before = [(kind, result)] if first else []
        result = w.intrinsic(name, kind, *before, *parts, (kind, inside))
    return result


def _part(w: LlvmWriter, table: str, first: int, count: int) -> str:
    """Loads `count` entries from `first` on, at the start of the function."""
    place = w.early(f"getelementptr i8, ptr {table}, i64 {first}") if first else table
    return w.early(f"load {vector('i8', count)}, ptr {place}, align 1")


def _filled(lanes: int, full: int) -> list[int]:
    """The shuffle that widens a vector to `full` lanes."""
    return [min(lane, lanes - 1) for lane in range(full)]
