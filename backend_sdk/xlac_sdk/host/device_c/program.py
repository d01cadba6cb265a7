"""The host's side of a program for a device as one C99 file and its header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.emit.cfunctions import needed
from xlac_sdk.emit.ctext import kernel_text
from xlac_sdk.host.capi import extents, header, npy_program, wrappers
from xlac_sdk.host.capi.api import Api, api_of, text_of
from xlac_sdk.host.capi.arguments import ArrayArgument
from xlac_sdk.host.capi.constants import Constant, constants
from xlac_sdk.host.capi.entry_points import EntryPoint
from xlac_sdk.host.capi.render import status_text, tensor_table, weights_check
from xlac_sdk.host.device_c.driver import HostDriver
from xlac_sdk.host.device_c.steps import HOST, STOPPED, DeviceSteps
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Kernel, Store
from xlac_sdk.lowering.stop_checks import changes_state
from xlac_sdk.programs.constants import WeightsOrigin, places
from xlac_sdk.programs.program import RECORD, Program, Role, Slot, touched
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.templates import template

LONGEST = 2000  # characters of a string literal: compilers must take 4,095
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}


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


@dataclass(frozen=True, slots=True)
class _DeviceCall:
    """A function that runs steps: `NAME_run`, or that of an entry; the inputs and outputs with
    where they begin in their block.
    """

    name: str
    arrays: tuple[ArrayArgument, ...]
    inputs: tuple[tuple[int, int], ...]  # (number among the arrays, start)
    outputs: tuple[tuple[int, int], ...]
    lines: list[str]
    entry: EntryPoint | None = None


def host_program(
    program: Program,
    text: str,
    driver: HostDriver,
    backend: str,
    weights: WeightsOrigin = WeightsOrigin.EMBED,
    forms: tuple[str, ...] = (),
    unchecked: tuple[Program, str] | None = None,
) -> dict[str, str]:
    """`NAME.c`, `NAME.h` and further `forms` over them, by file name, for a program of grids
    (`lowering/grids.py`); a checked one has its record inside (`host/records.py`).

    `text` is what `Backend.emit` wrote, which the driver compiles when the program is opened.
    `unchecked` are a checked program without its checks and that one's text: `NAME.c` has both, and
    is compiled with -DNAME_CHECKED for the checks. `weights`: inside the file, or given by the
    caller. Raises UnsupportedError for what the host's side cannot do: steps of libraries, weights
    by the assembler.
    """
    _check(program, backend, weights)
    api = device_api(program, weights, driver)
    if unchecked is None:
        c_file = _HostFile(program, text, api, backend).write()
    else:
        api = replace(api, tears=api.tears or device_api(unchecked[0], weights, driver).tears)
        c_file = _both(
            _HostFile(*unchecked, api, backend, False), _HostFile(program, text, api, backend), api
        )
    texts = {f"{api.prefix}.c": c_file, f"{api.prefix}.h": header(api)}
    if {"main", "exe"} & set(forms):
        texts[f"{api.prefix}_main.c"] = npy_program(api)
    return texts | wrappers(api, forms)


@dataclass(frozen=True, slots=True)
class _HostFile:
    """The parts of `NAME.c` for one program; `checked`: whether it reads the record of a checked
    one.
    """

    program: Program
    text: str
    api: Api
    backend: str
    checked: bool = True

    @property
    def constants(self) -> list[Constant]:
        """The weights inside the file."""
        outside = self.api.weight_bytes
        return [] if outside else list(constants(self.program, _constants(self.program)))

    def write(self, apart: Sequence[Constant] = ()) -> str:
        """The text, without the constants that are elsewhere."""
        program, api, backend = self.program, self.api, self.backend
        driver = api.driver
        assert driver is not None
        starts, end = _starts(program, driver.alignment)
        kernels = program.kernels
        numbers = {kernel: number for number, kernel in enumerate(kernels)}
        rows = [_row(number, kernel, driver.dialect) for kernel, number in numbers.items()]
        names = {size.name: size.identifier for size in program.sizes}
        entries = program.entries
        own = device_api(program, api.weights, driver)  # whose arrays are of this program

        def writer() -> DeviceSteps:
            return DeviceSteps(program, starts, numbers, backend)

        ways = [_way("run", own.arrays, starts, list(writer().write(program.steps)))]
        if entries is not None and own.entries is not None:
            for entry, point in zip(entries.entries, own.entries.points, strict=True):
                lines = list(writer().write(entry.steps))
                ways.append(_way(entry.name, point.arrays, starts, lines, point))
        return template("xlac_sdk.host.device_c", "host.c.j2").render(
            api=api,
            driver=driver,
            text=list(_literals(self.text)),
            kernels=rows,
            functions=needed("\n".join(line for row in rows for line in row.blocks)),
            ways=ways,
            checked=self.checked,
            flagged=any(way.entry is not None and way.entry.flag is not None for way in ways),
            first=list(writer().unstopped(entries.first)) if entries is not None else [],
            data_bytes=end,
            uploads=list(_uploads(program, api, starts)),
            constants=[one for one in self.constants if one not in apart],
            weights_check=weights_check(api) if api.weight_bytes else "",
            status_text=status_text(api),
            tensor_table=tensor_table(api) if api.entries else "",
            text_of=text_of,
            stopped=STOPPED,
            elements=lambda array: extents.text(array.slot.elements, names),
        )


def _both(unchecked: _HostFile, checked: _HostFile, api: Api) -> str:
    """`NAME.c` of a checked program and of the one without checks, selected by a macro; constants
    that are the same appear once.
    """
    known = {one.symbol: one for one in checked.constants}
    shared = [one for one in unchecked.constants if known.get(one.symbol) == one]
    return template("xlac_sdk.host.device_c", "both.c.j2").render(
        api=api, constants=shared, checked=checked.write(shared), unchecked=unchecked.write(shared)
    )


def device_api(program: Program, weights: WeightsOrigin, driver: HostDriver) -> Api:
    """The interface of the host's side of a program."""
    steps = program.steps
    if program.entries is not None:
        steps = (*steps, *(step for entry in program.entries.entries for step in entry.steps))
    return replace(api_of(program, weights, 1), driver=driver, tears=any(map(changes_state, steps)))


def _check(program: Program, backend: str, weights: WeightsOrigin) -> None:
    """Raises UnsupportedError for a program, or a place of weights, without a host's side in C."""
    problem = hint = ""
    if program.facts.get("checks", "[]") != "[]" and RECORD not in program.facts:
        problem = "the C of a device's host reads no record that is an output"
        hint = "the backend's `records` is True"
    elif weights is WeightsOrigin.INCBIN:
        problem = "the C of a device's host includes no file of weights"
        hint = "--weights embed, file or mmap"
    if problem:
        raise UnsupportedError(Diagnostic("XL5011", f"{problem} (target '{backend}')", hint=hint))


def _way(
    name: str,
    arrays: tuple[ArrayArgument, ...],
    starts: Mapping[Slot, int],
    lines: list[str],
    entry: EntryPoint | None = None,
) -> _DeviceCall:
    ends = [(number, starts[array.slot]) for number, array in enumerate(arrays)]
    inputs = tuple(end for end, array in zip(ends, arrays, strict=True) if not array.written)
    outputs = tuple(end for end, array in zip(ends, arrays, strict=True) if array.written)
    return _DeviceCall(name, arrays, inputs, outputs, lines, entry)


def _constants(program: Program) -> set[Slot]:
    used = touched(program.every_step)
    return {s for s in program.slots if s.role is Role.CONSTANT and s.nbytes and s in used}


def _starts(program: Program, alignment: int) -> tuple[dict[Slot, int], int]:
    """The place of each constant, input and output in their block of memory, and its bytes."""
    starts, end = {}, 0
    for slot in program.slots:
        if slot.role not in BESIDE:
            align = max(alignment, slot.align)
            starts[slot] = start = -(-end // align) * align
            end = start + slot.nbytes
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
