"""The host's side of a program for a device as one C99 file and its header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.emit.cfunctions import needed
from xlac_sdk.emit.ctext import kernel_text
from xlac_sdk.host.capi import extents
from xlac_sdk.host.capi.api import Api, Status, StatusCode, api_of
from xlac_sdk.host.capi.constants import constants
from xlac_sdk.host.capi.render import status_text, weights_check
from xlac_sdk.host.device_c.driver import HostDriver
from xlac_sdk.host.device_c.steps import HOST, STOPPED, DeviceSteps
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Kernel, Store
from xlac_sdk.lowering.stop_checks import changes_state
from xlac_sdk.programs.constants import WeightsOrigin, places
from xlac_sdk.programs.program import Program, Role, Slot, touched
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.templates import template

LONGEST = 2000  # characters of a string literal: compilers must take 4,095
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}


class DeviceStatus(StatusCode):
    """Further status codes of a program on a device."""

    NO_MEMORY = 15, "the host has no memory left"
    DEVICE_FAILED = 16, "the device or its driver failed"


@dataclass(frozen=True, slots=True)
class _KernelRow:
    """A row of the table of kernels: the function's name, the bytes of an element of each buffer,
    how many sizes, threads of a block, and the function that counts blocks.
    """

    name: str
    bytes: tuple[int, ...]
    sizes: int
    threads: int
    blocks: tuple[str, ...]


def host_program(
    program: Program,
    text: str,
    driver: HostDriver,
    backend: str,
    weights: WeightsOrigin = WeightsOrigin.EMBED,
) -> dict[str, str]:
    """`NAME.c` and `NAME.h`, by file name, for a program of grids (`lowering/grids.py`).

    `text` is what `Backend.emit` wrote, which the driver compiles when the program is opened.
    `weights`: inside the file, or given by the caller. Raises UnsupportedError for what the host's
    side cannot do: steps of libraries, checked programs, weights by the assembler.
    """
    _check(program, backend, weights)
    api = api_of(program, weights, 1)
    starts, end = _starts(program, driver.alignment)
    kernels = program.kernels
    numbers = {kernel: number for number, kernel in enumerate(kernels)}
    rows = [_row(number, kernel, driver.dialect) for kernel, number in numbers.items()]
    lines = list(DeviceSteps(program, starts, numbers, backend).write(program.steps))
    names = {size.name: size.identifier for size in program.sizes}
    facts = {
        "api": api,
        "driver": driver,
        "statuses": (*_used(api), *DeviceStatus),
        "keeps": any(map(changes_state, program.steps)),
    }
    c_file = template("xlac_sdk.host.device_c", "host.c.j2").render(
        **facts,
        text=list(_literals(text)),
        kernels=rows,
        functions=needed("\n".join(line for row in rows for line in row.blocks)),
        lines=lines,
        data_bytes=end,
        uploads=list(_uploads(program, api, starts)),
        constants=[] if api.weight_bytes else list(constants(program, _constants(program))),
        ends=[starts[array.slot] for array in api.arrays],
        weights_check=weights_check(api) if api.weight_bytes else "",
        status_text=status_text(api, _texts()),
        stopped=STOPPED,
        elements=lambda array: extents.text(array.slot.elements, names),
    )
    header = template("xlac_sdk.host.device_c", "host.h.j2").render(**facts)
    return {f"{api.prefix}.c": c_file, f"{api.prefix}.h": header}


def _check(program: Program, backend: str, weights: WeightsOrigin) -> None:
    """Raises UnsupportedError for a program, or a place of weights, without a host's side in C."""
    problem = hint = ""
    if program.facts.get("checks", "[]") != "[]":
        problem, hint = "the C of a device's host does not report checks", "leave --checked out"
    elif program.entries is not None:
        problem = "the C of a device's host has no training steps"
        hint = "targets cpu and c have; `xlac train` trains on every target"
    elif weights is WeightsOrigin.INCBIN:
        problem = "the C of a device's host includes no file of weights"
        hint = "--weights embed, file or mmap"
    if problem:
        raise UnsupportedError(Diagnostic("XL5011", f"{problem} (target '{backend}')", hint=hint))


def _constants(program: Program) -> set[Slot]:
    used = touched(program.steps)
    return {s for s in program.slots if s.role is Role.CONSTANT and s.nbytes and s in used}


def _starts(program: Program, alignment: int) -> tuple[dict[Slot, int], int]:
    """The place of each constant, input and output in their block of memory, and its bytes."""
    starts, end = {}, 0
    for slot in program.slots:
        if slot.role not in BESIDE:
            starts[slot] = end
            end += -(-slot.nbytes // alignment) * alignment
    return starts, end


BESIDE = (Role.TEMPORARY, Role.STATE)  # what has blocks of its own


def _uploads(program: Program, api: Api, starts: Mapping[Slot, int]) -> Iterator[tuple[str, ...]]:
    """For each constant its place, where the host has it, and its bytes."""
    inside, used = places(program), _constants(program)
    for slot in program.slots:
        if slot in used:
            source = f"bytes + {inside[slot]}" if api.weight_bytes else f"constant_{slot.symbol}"
            yield f"AT(data, {starts[slot]})", source, str(slot.nbytes)


def _row(number: int, kernel: Kernel, dialect: Dialect) -> _KernelRow:
    form = grid(kernel)
    assert form is not None, f"kernel {kernel.name} is no grid"
    result = Buffer("result", form.blocks.dtype, 1, access=Access.WRITE)
    body = (Store(result, Const(0, DType.I64), form.blocks),)
    counted = kernel_text(Kernel(f"blocks_{number}", (result,), body, kernel.sizes), HOST)
    *before, last = counted.lines
    text = "\n".join((*before, last))
    sizes = [
        f"    const int64_t {name} = sizes[{at}];"
        for at, var in enumerate(kernel.sizes)
        for name in (HOST.identifier(var.name),)
        if name in text
    ]
    value = last.strip().partition(" = ")[2]
    return _KernelRow(
        dialect.function(kernel.name),
        tuple(buffer.dtype.nbytes for buffer in kernel.parameters),
        len(kernel.sizes),
        form.threads,
        (*sizes, *before, f"    return {value}"),
    )


def _literals(text: str) -> Iterator[str]:
    """A text as string literals of C, one for each line or for a part of a long one."""
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), LONGEST):
            part = line[start : start + LONGEST]
            yield f'"{"".join(ESCAPES.get(c, c) for c in part)}"'


def _used(api: Api) -> tuple[StatusCode, ...]:
    """The status codes of every program that those of a device return."""
    codes = [Status.OK, Status.NULL_POINTER, Status.NOT_READY, Status.STOPPED]
    codes += [Status.OUT_OF_BOUNDS] if api.sizes else []
    return (*codes, *([Status.NO_WEIGHTS, Status.WRONG_WEIGHTS] if api.weight_bytes else []))


def _texts() -> list[str]:
    known = {code.number: code.text for code in (*Status, *DeviceStatus)}
    unknown = "no status of this program"
    return [known.get(number, unknown) for number in range(max(known) + 1)] + [unknown]
