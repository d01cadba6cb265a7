"""The LLVM text of the C API, on top of the functions that run the variants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from xlac_cpu.ahead.levels import PSABI, XSAVE, levels
from xlac_cpu.emit.spelling import number
from xlac_cpu.machine import Machine
from xlac_sdk.dims import Dim, Quotient, Sym, Symbol, bounds
from xlac_sdk.dtypes import DType
from xlac_sdk.host.capi import Api
from xlac_sdk.host.capi.api import text_of
from xlac_sdk.host.capi.arguments import ArrayArgument
from xlac_sdk.host.capi.entry_points import EntryPoint
from xlac_sdk.host.capi.status import EntryStatus, StateStatus
from xlac_sdk.programs.constants import HEADER, MAGIC, MIX, STEP
from xlac_sdk.support.templates import template


def entry(
    api: Api,
    machines: Sequence[Machine],
    room: int,
    mark: str,
    texts: Sequence[tuple[str, ...]],
    watched: Sequence[bool],
) -> str:
    """The module with the functions of the header, `room` bytes for embedded weights, and
    replacements for C library functions that the variants call. `watched`: which variants have stop
    checks.
    """
    machine = machines[0]
    needed = {"memcpy"} if any("llvm.memcpy" in text for part in texts for text in part) else set()
    needed |= {"memset"} if api.state_bytes else set()
    needed |= {"memcpy"} if api.entries else set()
    vectors = machine.vector_bytes >= 16
    return template("xlac_cpu", "entry.ll.j2").render(
        api=api,
        run_functions=_run_functions(api),
        entry_status=EntryStatus,
        state_status=StateStatus,
        types=dict.fromkeys(t.slot.dtype.value for t in api.entries.tensors) if api.entries else (),
        text_of=text_of,
        double=lambda text: number(float(text), DType.F64),
        header=json.dumps(machine.settings, sort_keys=True),
        triple=machine.triple,
        bits=machine.pointer_bits,
        variants=len(machines),
        watched=[int(one) for one in watched],
        block=room,
        mark=mark,
        needed=needed,
        wide=16 if vectors else 4,
        chunk="<4 x i32>" if vectors else "i32",
        header_words=[int.from_bytes(MAGIC, "little"), api.weight_bytes, api.weights_hash],
        header_bytes=HEADER,
        hash_step=STEP,
        hash_mix=MIX,
        attributes=machine.attributes,
        levels=levels(machines) if len(machines) > 1 else [],
        needs=Needs(api),
        psabi=PSABI,
        xsave=XSAVE,
    )


@dataclass(frozen=True, slots=True)
class _RunFunction:
    """A function that runs steps, as C calls it: `NAME_run`, or that of an entry, with its `point`;
    and what it calls in each variant.
    """

    name: str
    function: str
    arrays: tuple[ArrayArgument, ...]
    point: EntryPoint | None = None


def _run_functions(api: Api) -> list[_RunFunction]:
    points = api.entries.points if api.entries else ()
    more = (
        _RunFunction(point.name, f"enter_{point.name}", point.arrays, point) for point in points
    )
    return [_RunFunction("run", "run", api.arrays), *more]


class Needs:
    """LLVM text that computes the bytes of memory for calls with the sizes `%s0`, `%s1`, …: its
    lines, and the name of the result.
    """

    def __init__(self, api: Api) -> None:
        self.names = {size.symbol.name: f"%s{number}" for number, size in enumerate(api.sizes)}
        self.lines: list[str] = []
        self.result = "0"
        for end in api.ends:
            value = self._value(end)
            larger = self._line(f"icmp sgt i64 {value}, {self.result}")
            self.result = self._line(f"select i1 {larger}, i64 {value}, i64 {self.result}")

    def _value(self, dim: Dim) -> str:
        """A size: a sum of products of symbols and of quotients, which are rounded down."""
        if not isinstance(dim, Sym):
            return str(dim)
        total = "0"
        for atoms, factor in dim.parts:
            term = str(factor)
            for atom in atoms:
                term = self._line(
                    f"mul i64 {term}, "
                    f"{self.names[atom.name] if isinstance(atom, Symbol) else self._quotient(atom)}"
                )
            total = self._line(f"add i64 {total}, {term}")
        return total

    def _quotient(self, atom: Quotient) -> str:
        lift = max(0, -(bounds(atom.dividend)[0] // atom.divisor))  # sdiv rounds towards zero
        quotient = self._line(
            f"sdiv i64 {self._value(atom.dividend + lift * atom.divisor)}, {atom.divisor}"
        )
        return self._line(f"sub i64 {quotient}, {lift}")

    def _line(self, text: str) -> str:
        self.lines.append(f"%n{len(self.lines)} = {text}")
        return f"%n{len(self.lines) - 1}"
