"""A program as one C99 file and its header."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xlac_c.exchanges import Exchanges
from xlac_c.kernels import functions
from xlac_c.lowering import LoweredForC
from xlac_c.steps import Steps
from xlac_sdk.emit import hand_written
from xlac_sdk.emit.cfunctions import TYPES, needed
from xlac_sdk.emit.cvectors import declarations
from xlac_sdk.host import capi
from xlac_sdk.host.capi import extents
from xlac_sdk.host.capi.api import Api, text_of
from xlac_sdk.host.capi.arguments import ArrayArgument
from xlac_sdk.host.capi.constants import Constant, constants
from xlac_sdk.host.capi.entry_points import EntryPoint
from xlac_sdk.host.capi.ranks import ranks_api
from xlac_sdk.host.capi.render import status_text, tensor_table, weights_check
from xlac_sdk.host.ranks.parts import RankParts
from xlac_sdk.lowering.stop_checks import StopChecks, of_entries
from xlac_sdk.programs.program import Program, Role, Step, touched
from xlac_sdk.support.templates import template

# bytes of constants up to which a program run in this process has them in its text
EMBED = 1 << 20
ALIGN = 8  # bytes: the strictest alignment of element types, which malloc guarantees everywhere


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """The statements of a function, and the blocks of memory that they refer to."""

    lines: list[str]
    blocks: list[str]

    @property
    def waits(self) -> bool:
        """Whether it waits for other ranks."""
        return any(" = arrived(" in line for line in self.lines)


@dataclass(frozen=True, slots=True)
class _Way:
    """A function that runs steps: `NAME_run`, or that of an entry; of a pipeline, with the body of
    each stage, and the stages that need each array.
    """

    name: str
    arrays: tuple[ArrayArgument, ...]
    bodies: list[FunctionBody]
    entry: EntryPoint | None
    readers: dict[ArrayArgument, list[int]]

    @property
    def staged(self) -> bool:
        """Whether ranks do different things."""
        return len(self.bodies) > 1

    def missing(self, array: ArrayArgument) -> str:
        """When a null pointer is an error, in C; "" where it never is."""
        stages = self.readers[array]
        if not array.count or not stages:
            return ""
        null = f"{array.slot.symbol} == NULL"
        if len(stages) == len(self.bodies):
            return null
        some = " || ".join(f"context->stage == {stage}" for stage in stages)
        return f"{null} && ({some})"


def api_of(program: Program, weights: capi.WeightsOrigin, parts: RankParts | None = None) -> Api:
    """The C API of a program."""
    return capi.api_of(program, weights, ALIGN, ranks_api(parts, weights) if parts else None)


def both_files(unchecked: LoweredForC, checked: LoweredForC, api: Api) -> str:
    """`NAME.c` with a checked program and the unchecked one, selected by a macro; common constants
    appear once.
    """
    first, second = (
        {c.symbol: c for c in constants(one.program, touched(one.program.every_step))}
        for one in (unchecked, checked)
    )
    shared = [constant for symbol, constant in first.items() if second.get(symbol) == constant]
    apart = frozenset(constant.symbol for constant in shared)
    text = [
        (
            f"/* Compile it with -D{api.upper}_CHECKED, and runs answer CHECK_FAILED, and "
            f'{api.prefix}_failure why. */\n#include "{api.prefix}.h"\n'
        )
    ]
    for one in shared:
        lines = "".join(f"    {line}\n" for line in one.lines)
        text.append(
            f"\n/* {one.about} */\nstatic const {one.type} {one.symbol}[{one.count}] = "
            f"{{\n{lines}}};\n"
        )
    text += [
        f"\n#ifdef {api.upper}_CHECKED\n",
        c_file(checked, api, True, apart),
        "\n#else\n",
        c_file(unchecked, api, False, apart),
        "\n#endif\n",
    ]
    return "".join(text)


def c_file(
    lowered: LoweredForC,
    api: Api,
    checked: bool = True,
    apart: frozenset[str] = frozenset(),
    parts: RankParts | None = None,
    others: Sequence[LoweredForC] = (),
) -> str:
    """`NAME.c`, without the constants in `apart`; `checked`: whether it reads the record of a
    checked program; `parts`: the ranks that run it together, and `others`, where they are stages of
    a pipeline, the programs of all stages but the first.
    """
    dialect, stages = lowered.dialect, [_Stage(one, api) for one in (lowered, *others)]
    each = [checks for stage in stages for checks in stage.checks]
    kernels = dict.fromkeys(kernel for one in stages for kernel in one.program.kernels)
    inside = {k: one.checks[0].inside(k) for one in stages for k in one.program.kernels}
    bodies = functions(kernels, dialect, inside)
    outside = bool(api.weight_bytes)
    varying = parts.varying if parts and not outside else frozenset[str]()

    def written(stage: _Stage, steps: tuple[Step, ...], checks: StopChecks) -> FunctionBody:
        messages = Exchanges(api.ranks, api.upper) if api.ranks else None
        writer = Steps(stage.program, bodies.callees, outside, dialect, checks, messages, varying)
        lines = list(writer.write(steps))
        used = [block for name, block in _blocks(api).items() if name in writer.touched]
        return FunctionBody(lines, used)

    ways = list(_ways(api, stages, written))
    written_by_hand = hand_written.functions(kernels)
    found = () if outside else _constants(stages, parts)
    lines = [line for way in ways for body in way.bodies for line in body.lines]
    body = "\n".join(line for f in bodies.texts for line in f.lines)
    return template("xlac_c", "program.c.j2").render(
        api=api,
        ends=[
            extents.text(end, {s.symbol.name: f"sizes->{s.name}" for s in api.sizes})
            for end in api.ends
        ],
        libm=lowered.libm,
        incbin=outside and api.weights is capi.WeightsOrigin.INCBIN,
        vectors=declarations((v for f in bodies.texts for v in f.vectors), dialect),
        functions=needed(body, lowered.functions),
        constants=[c for c in found if c.symbol not in apart],
        checked=checked,
        kernels=bodies.texts,
        declarations=[f"{one.declaration(dialect)};" for one in written_by_hand],
        definitions=[one.definition(dialect) for one in written_by_hand],
        ways=[(way, _parameters(way.arrays, api)) for way in ways],
        text_of=text_of,
        type_of=TYPES.__getitem__,
        first=[written(one, one.first, one.checks[0]) for one in stages],
        watched=any(checks.long for checks in each),
        committed=any("&never" in line for line in lines),
        progress=any(" = moved(" in line for line in lines),
        weights_check=weights_check(api) if api.mapped else "",
        status_text=status_text(api),
        tensor_table=tensor_table(api) if api.entries else "",
    )


def _ways(api: Api, stages: Sequence[_Stage], written: _Written) -> Iterator[_Way]:
    """The functions that run steps."""
    for at, (name, arrays, point) in enumerate(_points(api)):
        bodies = [written(one, one.steps[at], one.checks[at]) for one in stages]
        readers = {a: [n for n, one in enumerate(stages) if one.needs(a, at)] for a in arrays}
        yield _Way(name, arrays, bodies, point, readers)


def _constants(stages: Sequence[_Stage], parts: RankParts | None) -> Iterator[Constant]:
    """The constants of all stages."""
    for number, one in enumerate(stages):
        yield from constants(one.program, touched(one.program.every_step), parts, number)


class _Stage:
    """The program of all ranks, or of those of a stage: its steps for each function of the API,
    with their stop checks, and those that make the first state.
    """

    def __init__(self, lowered: LoweredForC, api: Api) -> None:
        self.program = lowered.program
        self.checks = of_entries(self.program)
        entries = self.program.entries if api.entries is not None else None
        more = [entry.steps for entry in entries.entries] if entries is not None else []
        self.steps = [self.program.steps, *more]
        self.first = entries.first if entries is not None else ()
        self._touched = [touched(steps) for steps in self.steps]

    def needs(self, array: ArrayArgument, at: int) -> bool:
        """Whether a function reads or writes an array; what callers get is always given."""
        return array.written or array.slot in self._touched[at]


_Written = Callable[[_Stage, "tuple[Step, ...]", StopChecks], FunctionBody]


def _points(api: Api) -> Iterator[tuple[str, tuple[ArrayArgument, ...], EntryPoint | None]]:
    """The functions that run steps, by name."""
    yield "run", api.arrays, None
    for point in api.entries.points if api.entries is not None else ():
        yield point.name, point.arrays, point


def _parameters(arrays: tuple[ArrayArgument, ...], api: Api) -> str:
    """The parameters of the header, with the compiler's names instead of the user's."""
    given = [f"const {api.prefix}_sizes *sizes"] if api.sizes else []
    given += [f"{'' if a.written else 'const '}{a.type} *{a.slot.symbol}" for a in arrays]
    return ", ".join(given)


def _blocks(api: Api) -> dict[str, str]:
    start = f" + {api.arena_start}" if api.arena_start else ""
    weights = (
        f"{api.prefix}_weights" if api.weights is capi.WeightsOrigin.INCBIN else "context->weights"
    )
    return {
        "arena": f"unsigned char *const arena = context->memory{start};",
        "state": "unsigned char *const state = context->memory;",
        "weights": f"const unsigned char *const weights = {weights};",
    }


def constant_bytes(program: Program) -> int:
    """Bytes of weights and folded values."""
    return sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT)
