"""Device functions behind the spellings of `dialect.py`, for instructions that CUDA C++ does not
expose.

Each is named by its operation and type, and written into modules that call it. For compilers other
than CUDA's it has a plain C body, so that the same file runs on a CPU in tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_cuda.emit.dialect import CUDA
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cfunctions import HALVES, TYPES, arithmetic, function
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.verify import applies

P = Primitive
BEFORE = "static __device__ __forceinline__"
WIDE = {32: "unsigned int", 64: "unsigned long long"}
WHOLE = (DType.I32, DType.U32, DType.I64, DType.U64)


def functions() -> Mapping[str, str]:
    """Every function, by name."""
    return dict([*_halves(), *_extremes(), *_counts(), *_exchanges(), *_atomics()])


def _either(signature: str, instruction: str, other: str) -> str:
    """A function that is one instruction, or other text where there is no such instruction."""
    body = other.partition("\n{\n")[2].removesuffix("\n}")
    return f"{BEFORE} {signature}\n{{\n#ifdef __CUDACC__\n{instruction}\n#else\n{body}\n#endif\n}}"


def _halves() -> Iterator[tuple[str, str]]:
    for name, instruction, kind, to, given in (
        ("f32_of_f16", "cvt.f32.f16", "float", "f", "h"),
        ("f16_of_f32", "cvt.rn.f16.f32", "uint16_t", "h", "f"),
        ("bf16_of_f32", "cvt.rn.bf16.f32", "uint16_t", "h", "f"),
    ):
        text, operand = HALVES[name], "h" if given == "h" else "value"
        yield (
            name,
            _either(
                text.partition("\n")[0], _instruction(kind, instruction, to, {operand: given}), text
            ),
        )


def _instruction(kind: str, name: str, to: str, given: Mapping[str, str]) -> str:
    """A function's body: one instruction on operands, each with the letter of its
    register class.
    """
    places = ", ".join(f"%{n}" for n in range(1 + len(given)))
    operands = ", ".join(f'"{letter}"({operand})' for operand, letter in given.items())
    return (
        f'    {kind} result;\n    asm("{name} {places};" : "={to}"(result) : {operands});\n    '
        "return result;"
    )


def _extremes() -> Iterator[tuple[str, str]]:
    """NaN if either is, and +0 above -0, with the semantics of the instructions. There are none for
    f64.
    """
    for p in (P.MAX, P.MIN):
        name = f"{p.value}_f32"
        text = _instruction("float", f"{p.value}.NaN.f32", "f", {"a": "f", "b": "f"})
        yield name, _either(f"float {name}(float a, float b)", text, function(name))


def _counts() -> Iterator[tuple[str, str]]:
    for dtype in DType:
        if not dtype.is_integer:
            continue
        kind, ends = TYPES[dtype], "ll" if dtype.bits == 64 else ""
        bits = f"({'uint64_t' if ends else 'uint32_t'})(u{kind.removeprefix('u')})a"
        spare = f" - {32 - dtype.bits}" if dtype.bits < 32 else ""
        yield (
            f"popcnt_{dtype}",
            (
                f"{BEFORE} {kind} popcnt_{dtype}({kind} a)\n{{\n    return "
                f"({kind})__popc{ends}({bits});\n}}"
            ),
        )
        signed = f"({'long long' if ends else 'int'}){bits}"
        yield (
            f"clz_{dtype}",
            (
                f"{BEFORE} {kind} clz_{dtype}({kind} a)\n{{\n    return "
                f"({kind})(__clz{ends}({signed}){spare});\n}}"
            ),
        )


def _exchanges() -> Iterator[tuple[str, str]]:
    """Exchanges between the threads of a warp, all of which must be active, as schedules ensure."""
    for dtype in DType:
        kind = TYPES[dtype]
        sent = kind if dtype.bits >= 32 else "unsigned int"
        if dtype in (DType.I64, DType.U64):
            sent = WIDE[64]
        given = "value" if sent == kind else f"({sent})value"
        back = f"__shfl_xor_sync(0xffffffffu, {given}, distance)"
        back = back if sent == kind else f"({kind}){back}"
        yield (
            f"exchange_{dtype}",
            (
                f"{BEFORE} {kind} exchange_{dtype}({kind} value, int distance)\n{{\n    return "
                f"{back};\n}}"
            ),
        )


# ---- atomic operations -------------------------------------------------------------------------

DIRECT = {
    P.ADD: "atomicAdd",
    P.MAX: "atomicMax",
    P.MIN: "atomicMin",
    P.AND: "atomicAnd",
    P.OR: "atomicOr",
    P.XOR: "atomicXor",
}


def _atomics() -> Iterator[tuple[str, str]]:
    for p in (P.ADD, P.MUL, P.MAX, P.MIN, P.AND, P.OR, P.XOR):
        for dtype in DType:
            if not applies(p, dtype):
                continue
            name, kind = f"atomic_{p.value}_{dtype}", TYPES[dtype]
            yield (
                name,
                f"{BEFORE} void {name}({kind} *place, {kind} value)\n{{\n{_atomic(p, dtype)}\n}}",
            )


def _atomic(p: Primitive, dtype: DType) -> str:
    if p is P.ADD and dtype in (DType.F32, DType.F64):
        return "    atomicAdd(place, value);"
    if p in DIRECT and dtype in WHOLE:
        kind = _held(p, dtype)
        return f"    {DIRECT[p]}(({kind} *)place, ({kind})value);"
    return _loop(p, dtype)


def _held(p: Primitive, dtype: DType) -> str:
    """The type that CUDA's function takes: signedness matters to comparisons only."""
    if p in (P.MAX, P.MIN) and dtype.is_signed:
        return "int" if dtype.bits == 32 else "long long"
    return WIDE[dtype.bits]


def _loop(p: Primitive, dtype: DType) -> str:
    """A compare-and-swap loop on the 32 or 64 bits that contain the element."""
    kind, bits = TYPES[dtype], max(32, dtype.bits)
    word, small = WIDE[bits], dtype.bits < 32
    unsigned = f"uint{bits}_t"
    if small:
        start = [
            "    const unsigned int shift = (unsigned int)((uintptr_t)place & 3u) * 8u;",
            "    unsigned int *const word = (unsigned int *)((uintptr_t)place & ~(uintptr_t)3u);",
        ]
        old = f"({kind})(uint{dtype.bits}_t)(assumed >> shift)"
        new = (
            f"(assumed & ~({(1 << dtype.bits) - 1:#x}u << shift)) | (unsigned "
            f"int)(uint{dtype.bits}_t)combined << shift"
        )
    else:
        start = [f"    {word} *const word = ({word} *)place;"]
        held = f"bitcast_{dtype}_u{bits}" if dtype.is_float else f"({unsigned})"
        back = f"bitcast_u{bits}_{dtype}" if dtype.is_float else f"({kind})"
        old, new = (
            f"{back}(({unsigned})assumed)" if dtype.is_float else f"{back}assumed",
            f"({word}){held}(combined)",
        )
    combined = CUDA.spelling(p, dtype).format(
        "before", "value", t=kind, w=arithmetic(dtype), d=dtype.value, f="f", one="1.0f"
    )
    return "\n".join(
        [
            *start,
            f"    {word} found = __ldcv(word), assumed;",
            "    do {",
            "        assumed = found;",
            f"        const {kind} before = {old};",
            f"        const {kind} combined = {combined};",
            f"        found = atomicCAS(word, assumed, {new});",
            "    } while (found != assumed);",
        ]
    )
