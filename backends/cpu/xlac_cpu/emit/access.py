"""Loads and stores of buffers: consecutive, reversed, gathered, masked, atomic."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_cpu.emit.lanes import picked
from xlac_cpu.emit.spelling import constant, memory, number, register, suffix, vector
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive

# Single `atomicrmw` operations, by (primitive, is float, is signed); others use a compare-and-swap
# loop.
_ATOMIC = {
    (P.ADD, True): "fadd",
    (P.ADD, False): "add",
    (P.SUB, True): "fsub",
    (P.SUB, False): "sub",
    (P.AND, False): "and",
    (P.OR, False): "or",
    (P.XOR, False): "xor",
}


@dataclass(frozen=True, slots=True)
class Address:
    """The location of elements: a pointer to the first, or a vector of pointers."""

    pointer: str
    scattered: bool
    align: int
    reverse: bool = False  # the pointer is to the last lane's element


def read(w: LlvmWriter, place: Address, dtype: DType, lanes: int, mask: str | None) -> str:
    """The elements as a register value; masked-off lanes are zero."""
    scalar, kind = memory(dtype), memory(dtype, lanes)
    tail = suffix(scalar, lanes)
    if mask == _all(lanes):
        mask = None
    if place.scattered:
        name = w.declare(
            kind,
            f"llvm.masked.gather.{tail}.v{lanes}p0",
            vector("ptr", lanes),
            vector("i1", lanes),
            kind,
        )
        value = w.fresh(
            f"call {kind} @{name}({vector('ptr', lanes)} align {place.align} {place.pointer}, "
            f"{vector('i1', lanes)} {mask or _all(lanes)}, {kind} zeroinitializer)"
        )
    elif mask is None:
        value = w.fresh(f"load {kind}, ptr {place.pointer}, align {place.align}")
    else:
        one = lanes == 1  # LLVM turns a single masked lane into a branch
        kind, flags = vector_of(scalar, lanes), vector_of("i1", lanes)
        if one:
            mask = w.op(f"insertelement <1 x i1> poison, i1 {mask}, i64 0")
        elif place.reverse:
            mask = reverse(w, mask, "i1", lanes)
        name = w.declare(kind, f"llvm.masked.load.v{lanes}{suffix(scalar)}.p0", "ptr", flags, kind)
        value = w.fresh(
            f"call {kind} @{name}(ptr align {place.align} {place.pointer}, {flags} {mask}, {kind} "
            "zeroinitializer)"
        )
        if one:
            value = w.op(f"extractelement <1 x {scalar}> {value}, i64 0")
    if place.reverse:
        value = reverse(w, value, scalar, lanes)
    return from_memory(w, value, dtype, lanes)


def write(
    w: LlvmWriter,
    place: Address,
    value: str,
    dtype: DType,
    lanes: int,
    mask: str | None,
    streaming: bool,
) -> None:
    """Stores a register value. `streaming` is used if the address is aligned for it."""
    value = to_memory(w, value, dtype, lanes)
    scalar, kind = memory(dtype), memory(dtype, lanes)
    if mask == _all(lanes):
        mask = None
    if place.reverse:
        value = reverse(w, value, scalar, lanes)
        mask = mask and reverse(w, mask, "i1", lanes)
    if place.scattered:
        name = w.declare(
            "void",
            f"llvm.masked.scatter.{suffix(scalar, lanes)}.v{lanes}p0",
            kind,
            vector("ptr", lanes),
            vector("i1", lanes),
        )
        w.do(
            f"call void @{name}({kind} {value}, {vector('ptr', lanes)} align {place.align} "
            f"{place.pointer}, "
            f"{vector('i1', lanes)} {mask or _all(lanes)})"
        )
    elif mask is None:
        aligned = streaming and place.align >= min(64, lanes * dtype.nbytes)
        w.do(
            f"store {kind} {value}, ptr {place.pointer}, align {place.align}"
            + (", !nontemporal !0" if aligned else "")
        )
    else:
        if lanes == 1:
            value = w.op(f"insertelement <1 x {scalar}> poison, {scalar} {value}, i64 0")
            mask = w.op(f"insertelement <1 x i1> poison, i1 {mask}, i64 0")
        kind, flags = vector_of(scalar, lanes), vector_of("i1", lanes)
        if dtype.nbytes < 4:
            mask = _opaque(w, mask, lanes)
        name = w.declare(
            "void", f"llvm.masked.store.v{lanes}{suffix(scalar)}.p0", kind, "ptr", flags
        )
        w.do(
            f"call void @{name}({kind} {value}, ptr align {place.align} {place.pointer}, {flags} "
            f"{mask})"
        )


def _opaque(w: LlvmWriter, mask: str, lanes: int) -> str:
    """The same mask, hidden from LLVM's constant folding.

    LLVM 22 turns a masked store of a single lane of a truncated vector into a store of the
    untruncated lane, four bytes instead of two or one.
    """
    word = max(32, lanes)
    bits = w.op(f'call i{word} asm "", "=r,0"(i{word} -1)')
    narrow = bits if lanes == word else w.op(f"trunc i{word} {bits} to i{lanes}")
    ones = w.op(f"bitcast i{lanes} {narrow} to <{lanes} x i1>")
    return w.op(f"and <{lanes} x i1> {mask}, {ones}")


def combine(
    w: LlvmWriter,
    primitive: Primitive,
    place: Address,
    value: str,
    dtype: DType,
    lanes: int,
    mask: str | None,
    compute: Combine,
    shared: bool,
) -> None:
    """Combines every lane with the value in memory, one lane after another; `shared`: atomically,
    as other threads may do so too.
    """
    for lane in range(lanes):
        at = (lanes - 1 - lane) if place.reverse else lane
        if lanes == 1:
            pointer, one, flag = place.pointer, value, mask
        else:
            one = w.op(f"extractelement {register(dtype, lanes)} {value}, i64 {lane}")
            flag = mask and w.op(f"extractelement {vector('i1', lanes)} {mask}, i64 {lane}")
            if place.scattered:
                pointer = w.op(f"extractelement {vector('ptr', lanes)} {place.pointer}, i64 {lane}")
            else:
                pointer = w.op(f"getelementptr {memory(dtype)}, ptr {place.pointer}, i64 {at}")
        with w.scope():
            out = ""
            if flag:
                then, out = w.name("then"), w.name("end")
                w.do(f"br i1 {flag}, label %{then}, label %{out}")
                w.label(then)
            if shared:
                _atomic(w, primitive, pointer, one, dtype, compute)
            else:
                old = from_memory(
                    w,
                    w.fresh(f"load {memory(dtype)}, ptr {pointer}, align {dtype.nbytes}"),
                    dtype,
                    1,
                )
                new = to_memory(w, compute(primitive, (old, one), dtype, 1), dtype, 1)
                w.do(f"store {memory(dtype)} {new}, ptr {pointer}, align {dtype.nbytes}")
            if flag:
                w.do(f"br label %{out}")
                w.label(out)


class Combine:
    """Spells a primitive, in the function that is being written."""

    def __call__(
        self, primitive: Primitive, operands: tuple[str, ...], dtype: DType, lanes: int
    ) -> str:
        raise NotImplementedError


def _atomic(
    w: LlvmWriter, primitive: Primitive, pointer: str, value: str, dtype: DType, compute: Combine
) -> None:
    kind = memory(dtype)
    simple = _ATOMIC.get((primitive, dtype.is_float))
    if simple and dtype is not DType.BOOL and not dtype.is_half:
        w.fresh(f"atomicrmw {simple} ptr {pointer}, {kind} {value} monotonic, align {dtype.nbytes}")
        return
    whole = f"i{dtype.bits}"
    first = w.fresh(f"load atomic {whole}, ptr {pointer} monotonic, align {dtype.nbytes}")
    before, again, out = w.block, w.name("try"), w.name("done")
    seen, swapped = f"%{w.name('seen')}", f"%{w.name('now')}"
    w.do(f"br label %{again}")
    w.label(again)
    hole = len(w.lines)
    with w.scope():
        bits = seen if kind == whole else w.fresh(f"bitcast {whole} {seen} to {kind}")
        new = to_memory(
            w, compute(primitive, (from_memory(w, bits, dtype, 1), value), dtype, 1), dtype, 1
        )
        if kind != whole:
            new = w.op(f"bitcast {kind} {new} to {whole}")
    w.lines.insert(
        hole, f"  {seen} = phi {whole} [ {first}, %{before} ], [ {swapped}, %{w.block} ]"
    )
    pair = w.fresh(
        f"cmpxchg weak ptr {pointer}, {whole} {seen}, {whole} {new} monotonic monotonic, align "
        f"{dtype.nbytes}"
    )
    w.do(f"{swapped} = extractvalue {{ {whole}, i1 }} {pair}, 0")
    done = w.fresh(f"extractvalue {{ {whole}, i1 }} {pair}, 1")
    w.do(f"br i1 {done}, label %{out}, label %{again}")
    w.label(out)


def from_memory(w: LlvmWriter, value: str, dtype: DType, lanes: int) -> str:
    """A loaded value in its register type: a byte becomes a bool."""
    if dtype is not DType.BOOL:
        return value
    return w.op(f"icmp ne {vector('i8', lanes)} {value}, {constant('0', 'i8', lanes)}")


def to_memory(w: LlvmWriter, value: str, dtype: DType, lanes: int) -> str:
    """A register value in its memory type: a bool becomes a byte."""
    return (
        w.op(f"zext {vector('i1', lanes)} {value} to {vector('i8', lanes)}")
        if dtype is DType.BOOL
        else value
    )


def reverse(w: LlvmWriter, value: str, scalar: str, lanes: int) -> str:
    """A vector with reversed lanes."""
    return picked(w, vector(scalar, lanes), value, range(lanes - 1, -1, -1))


def splat(w: LlvmWriter, value: str, scalar: str, lanes: int) -> str:
    """A scalar broadcast to every lane."""
    if lanes == 1:
        return value
    if value[0] != "%":
        return constant(value, scalar, lanes)
    kind = vector(scalar, lanes)
    first = w.op(f"insertelement {kind} poison, {scalar} {value}, i64 0")
    return w.op(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")


def steps(stride: int, lanes: int, scalar: str) -> str:
    """The constant vector `<0, stride, 2*stride, …>`."""
    dtype = DType.I32 if scalar == "i32" else DType.I64
    return f"<{', '.join(f'{scalar} {number(k * stride, dtype)}' for k in range(lanes))}>"


def vector_of(scalar: str, lanes: int) -> str:
    """A vector type even for one lane."""
    return f"<{lanes} x {scalar}>"


def _all(lanes: int) -> str:
    return constant("true", "i1", lanes)
