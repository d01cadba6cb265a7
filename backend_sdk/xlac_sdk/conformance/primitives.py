"""Cases for every primitive: on each dtype that it supports, as scalars and as vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlac_sdk.arithmetic import PROMISED
from xlac_sdk.conformance.case import EXACT, ConformanceCase, Tolerance
from xlac_sdk.conformance.values import arguments
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive, operand_dtypes, result_dtype
from xlac_sdk.kernel_ir.verify import applies
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot, Step
from xlac_sdk.target import Target

P = Primitive
COUNT = 256  # minimal number of elements
NAMES = "abcdefghjklmnopqr"  # of operands; `i` is the loop


def cases(target: Target) -> Iterator[ConformanceCase]:
    """One case for each primitive and width; an output for each dtype."""
    for primitive in Primitive:
        for vector in (False, True):
            signatures = [s for s in _signatures(primitive) if all(map(target.stores, s))]
            wide = [(s, min(target.lanes(d) for d in s) if vector else 1) for s in signatures]
            wide = [(s, lanes) for s, lanes in wide if lanes > 1 or not vector]
            # casts have many signatures: one program for each source type
            for part in _split(wide, 13):
                yield case_of(primitive, part, vector)


def _split(
    items: Sequence[tuple[tuple[DType, ...], int]], size: int
) -> Iterator[Sequence[tuple[tuple[DType, ...], int]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _signatures(primitive: Primitive) -> list[tuple[DType, ...]]:
    """Operand types, then the result's."""
    if primitive is P.CAST:
        return [(a, b) for a in DType for b in DType if a is not b]
    if primitive is P.BITCAST:
        return [
            (a, b)
            for a in DType
            for b in DType
            if a is not b and a.bits == b.bits and DType.BOOL not in (a, b)
        ]
    if primitive is P.SELECT:
        return [(*operand_dtypes(primitive, d), d) for d in DType]
    return [
        (*given, result_dtype(primitive, given))
        for d in DType
        if applies(primitive, d)
        for given in (operand_dtypes(primitive, d),)
    ]


def case_of(
    primitive: Primitive, part: Sequence[tuple[tuple[DType, ...], int]], vector: bool
) -> ConformanceCase:
    """A case of a primitive, with a kernel and an output for each signature (types of the operands,
    then of the result) and the lanes of its vectors.
    """
    steps: list[Step] = []
    inputs: dict[str, Array] = {}
    slots: list[Slot] = []
    for number, (signature, lanes) in enumerate(part):
        operands, result = signature[:-1], signature[-1]
        arrays = arguments(primitive, operands, max(COUNT, lanes))
        size = len(arrays[0])
        label = (
            f"{operands[0]}->{result}"
            if primitive in (P.CAST, P.BITCAST)
            else (
                operands[0] if primitive.is_comparison or primitive in (P.DOT4, P.DOT2) else result
            ).value
        )
        mine = []
        for position, (dtype, array) in enumerate(zip(operands, arrays, strict=True)):
            name = f"{label}.{NAMES[position]}"
            slots.append(Slot(name, f"in{number}_{position}", dtype, (size,), Role.INPUT))
            mine.append(slots[-1])
            inputs[name] = array
        slots.append(Slot(label, f"out{number}", result, (size,), Role.OUTPUT))
        kernel = _kernel(primitive, f"{primitive.value}_{number}", signature, size, lanes)
        steps.append(Launch(kernel, tuple(map(Argument, (*mine, slots[-1])))))
    name = f"{primitive.value} {'vector' if vector else 'scalar'}" + (
        f" of {part[0][0][0].value}" if primitive is P.CAST else ""
    )
    program = Program(
        "conformance",
        tuple(s for s in slots if s.role is Role.INPUT),
        tuple(s for s in slots if s.role is Role.OUTPUT),
        tuple(slots),
        tuple(steps),
        {},
    )
    ulp = PROMISED.get(primitive, 0.0)
    return ConformanceCase(name, primitive.value, program, inputs, Tolerance(ulp) if ulp else EXACT)


def _kernel(
    primitive: Primitive, name: str, signature: tuple[DType, ...], size: int, lanes: int
) -> Kernel:
    buffers = [Buffer(NAMES[i], d, size, align=1) for i, d in enumerate(signature[:-1])]
    result = Buffer("y", signature[-1], size, access=Access.WRITE, align=1)
    body = build.Builder()
    with body.loop("i", 0, size, lanes) as i:
        at = build.ramp(i, 1, lanes)
        given: list[Expr] = [build.load(b, at) for b in buffers]
        body.store(result, at, build.apply(primitive, *given, dtype=signature[-1]))
    return Kernel(
        name,
        (*buffers, result),
        body.body(),
        note=f"{primitive.value} of {signature[0]}, {lanes} lanes",
    )
