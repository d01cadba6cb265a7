"""A program as one C99 file and its header."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from xlac_c.constants import constants
from xlac_c.kernels import functions
from xlac_c.lowering import LoweredForC
from xlac_c.steps import Steps
from xlac_sdk.emit.cfunctions import needed
from xlac_sdk.emit.cvectors import declarations
from xlac_sdk.host import capi
from xlac_sdk.host.capi import extents
from xlac_sdk.host.capi.api import Api
from xlac_sdk.lowering.stop_checks import StopChecks
from xlac_sdk.programs.constants import HEADER, MIX, STEP
from xlac_sdk.programs.program import Program, Role, touched

# bytes of constants up to which a program that runs in this process has them in its text
EMBED = 1 << 20
ALIGN = 8  # bytes: what any element type asks for, and what malloc gives everywhere


def api_of(program: Program, weights: capi.WeightsOrigin) -> Api:
    """The interface of the C form of a program."""
    return capi.api_of(program, weights, ALIGN)


def both_files(unchecked: LoweredForC, checked: LoweredForC, api: Api) -> str:
    """`NAME.c` of a checked program and the unchecked one: whoever compiles it chooses, and what
    both hold is there once.
    """
    first, second = (
        {c.symbol: c for c in constants(one.program, touched(one.program.steps))}
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
    made: LoweredForC, api: Api, checked: bool = True, apart: frozenset[str] = frozenset()
) -> str:
    """`NAME.c`, without the constants that stand `apart`; `checked`: whether it looks at the record
    of a checked program.
    """
    program, dialect = made.program, made.dialect
    stop_checks = StopChecks(program)
    found = functions(program.kernels, dialect, stop_checks)
    outside = bool(api.weight_bytes)
    steps = Steps(program, found.callees, outside, dialect, stop_checks)
    lines = list(steps.write(program.steps))
    body = "\n".join(line for f in found.texts for line in f.lines)
    env = Environment(
        loader=PackageLoader("xlac_c"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return env.get_template("program.c.j2").render(
        api=api,
        ends=[
            extents.text(end, {s.symbol.name: f"sizes->{s.name}" for s in api.sizes})
            for end in api.ends
        ],
        libm=made.libm,
        incbin=outside and api.weights is capi.WeightsOrigin.INCBIN,
        vectors=declarations((v for f in found.texts for v in f.vectors), dialect),
        functions=needed(body, made.functions),
        constants=[]
        if outside
        else [c for c in constants(program, touched(program.steps)) if c.symbol not in apart],
        checked=checked,
        kernels=found.texts,
        run_parameters=_parameters(program, api),
        blocks=[block for name, block in _blocks(api).items() if name in steps.touched],
        steps=lines,
        watched=stop_checks.long,
        committed=any("&never" in line for line in lines),
        header_bytes=HEADER,
        hash_step=STEP,
        hash_mix=MIX,
    )


def _parameters(program: Program, api: Api) -> str:
    """As in the header, with the compiler's names: the user's stay out of the code."""
    given = [f"const {api.prefix}_sizes *sizes"] if api.sizes else []
    given += [f"{'' if a.written else 'const '}{a.type} *{a.slot.symbol}" for a in api.arrays]
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
