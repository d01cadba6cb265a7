"""A program as one C99 file and its header: what the templates need to know, worked out here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from xlac_sdk.cfunctions import TYPES, function, needed
from xlac_sdk.ctext import C99, Dialect, Function, comment, kernel_text, literal
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Kernel
from xlac_sdk.program import Argument, Branch, Call, Copy, Launch, Program, Repeat, Role, Slot, Step, While
from xlac_sdk.source import Diagnostic, UnsupportedError

EMBED = 1 << 20  # bytes of constants up to which they are written into the file; beyond, the caller maps them
ALIGN = 64


@dataclass(frozen=True, slots=True)
class Model:
    """The outside of a compiled program, as C sees it."""

    name: str
    title: str
    inputs: tuple[dict[str, str], ...]
    outputs: tuple[dict[str, str], ...]
    signature: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    arena_bytes: int
    state_bytes: int
    weights_bytes: int

    @property
    def upper(self) -> str:
        return self.name.upper()


def identifier(name: str) -> str:
    """The prefix of a model's functions and files, from a name that may be any text."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return plain if plain and plain[0].isalpha() else f"model_{plain}".rstrip("_")


def embedded(program: Program) -> bool:
    """Whether the constants are in the file."""
    return sum(s.nbytes for s in program.slots if s.role is Role.CONSTANT) <= EMBED


def places(program: Program) -> dict[Slot, int]:
    """The byte at which each constant starts in the block of weights."""
    found, end = {}, 0
    for slot in program.slots:
        if slot.role is Role.CONSTANT:
            found[slot] = end
            end += -(-slot.nbytes // ALIGN) * ALIGN
    return found


def weights(program: Program) -> NDArray[np.uint8]:
    """The block of weights that `NAME_run` is given when they are not in the file; aligned to 64 bytes."""
    where = places(program)
    block = aligned(weights_bytes(program))
    for slot, start in where.items():
        data = np.ascontiguousarray(program.constants[slot.symbol]).reshape(-1)
        block[start : start + slot.nbytes] = data.view(np.uint8)
    return block


def weights_bytes(program: Program) -> int:
    return max((start + -(-s.nbytes // ALIGN) * ALIGN for s, start in places(program).items()), default=0)


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """Bytes of memory that start at a multiple of 64."""
    block = np.zeros(nbytes + ALIGN, np.uint8)
    skip = -block.ctypes.data % ALIGN
    return block[skip : skip + nbytes]


def model(program: Program) -> Model:
    inside = embedded(program)
    nbytes = 0 if inside else weights_bytes(program)
    parts = [f"const {TYPES[s.dtype]} *{s.symbol}" for s in program.inputs]
    parts += [f"{TYPES[s.dtype]} *{s.symbol}" for s in program.outputs]
    names = [s.symbol for s in (*program.inputs, *program.outputs)]
    required = [s.symbol for s in (*program.inputs, *program.outputs) if s.nbytes]
    if nbytes:
        parts.append("const void *weights")
        required.append("weights")
    if program.state_bytes:
        parts.append("void *state")
        required.append("state")
    parts.append("void *arena")
    if program.arena_bytes:
        required.append("arena")
    optional = tuple(n for n in (*names, "arena") if n not in required)
    return Model(
        identifier(program.name), comment(program.name), tuple(map(_about, program.inputs)),
        tuple(map(_about, program.outputs)), ", ".join(parts), tuple(required), optional,
        program.arena_bytes, program.state_bytes, nbytes,
    )  # fmt: skip


def _about(slot: Slot) -> dict[str, str]:
    shape = ", ".join(map(str, slot.shape))
    return {"symbol": slot.symbol, "about": f"'{comment(slot.name)}', {slot.dtype}[{shape}]"}


class Source:
    """Writes the two files of a program."""

    def __init__(self, program: Program, dialect: Dialect = C99) -> None:
        self.program, self.dialect = program, dialect
        self.model = model(program)
        self.inside = embedded(program)
        self.places = places(program)
        self.functions: dict[Kernel, Function] = {k: kernel_text(k, dialect) for k in program.kernels}

    def files(self) -> dict[str, str]:
        env = Environment(
            loader=PackageLoader("xlac_c"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            keep_trailing_newline=True, autoescape=False,
        )  # fmt: skip
        kernels = list(self.functions.values())
        body = "\n".join(line for k in kernels for line in k.lines)
        names = needed(body)
        facts: dict[str, Any] = {
            "model": self.model,
            "kernels": kernels,
            "functions": [function(n) for n in names],
            "constants": list(self.constants()) if self.inside else [],
            "steps": list(self.steps(self.program.steps, 1)),
        }
        name = self.model.name
        return {
            f"{name}.c": env.get_template("program.c.j2").render(facts),
            f"{name}.h": env.get_template("program.h.j2").render(model=self.model),
        }

    def constants(self) -> Iterator[dict[str, object]]:
        used = {a.slot for a in _arguments(self.program.steps)}
        for slot in self.places:
            if slot not in used or not slot.size:
                continue
            flat = np.asarray(self.program.constants[slot.symbol]).reshape(-1)
            numbers = [_constant(v, slot.dtype) for v in flat.tolist()]
            lines = [", ".join(numbers[i : i + 8]) + "," for i in range(0, len(numbers), 8)]
            lines[-1] = lines[-1][:-1]
            about = f"{comment(slot.name)}: {slot.dtype}[{', '.join(map(str, slot.shape))}]"
            yield {
                "symbol": slot.symbol, "type": TYPES[slot.dtype], "count": slot.size, "lines": lines, "about": about,
            }  # fmt: skip

    # ---- steps -------------------------------------------------------------------------------

    def steps(self, steps: tuple[Step, ...], depth: int) -> Iterator[str]:
        pad = "    " * depth
        for step in steps:
            match step:
                case Launch(kernel=kernel, arguments=arguments, sizes=sizes):
                    pairs = zip(arguments, kernel.parameters, strict=True)
                    given = [self.pointer(a, b.access.value != "read") for a, b in pairs]
                    yield f"{pad}{self.functions[kernel].name}({', '.join([*given, *map(str, sizes)])});"
                case Copy(target=target, source=source, count=count):
                    nbytes = count * source.slot.dtype.nbytes
                    yield f"{pad}memcpy({self.pointer(target, True)}, {self.pointer(source)}, {nbytes});"
                case Repeat(counter=counter, count=count, body=body):
                    name = self.dialect.identifier(counter)
                    yield f"{pad}for (int64_t {name} = 0; {name} < {count}; ++{name}) {{"
                    yield from self.steps(body, depth + 1)
                    yield f"{pad}}}"
                case While(condition=condition, flag=flag, body=body):
                    yield f"{pad}for (;;) {{"
                    yield from self.steps(condition, depth + 1)
                    yield f"{pad}    if (!*({self.pointer(flag)})) break;"
                    yield from self.steps(body, depth + 1)
                    yield f"{pad}}}"
                case Branch(index=index, branches=branches):
                    yield f"{pad}switch (*({self.pointer(index)})) {{"
                    for number, branch in enumerate(branches):
                        last = number == len(branches) - 1
                        yield f"{pad}{'default' if last else f'case {number}'}: {{"
                        yield from self.steps(branch, depth + 1)
                        yield f"{pad}    break;"
                        yield f"{pad}}}"
                    yield f"{pad}}}"
                case Call(name=name):
                    raise UnsupportedError(Diagnostic("XL5021", f"the c backend does not claim '{name}'"))

    def pointer(self, argument: Argument, written: bool = False) -> str:
        slot = argument.slot
        kind = TYPES[slot.dtype]
        terms = [str(argument.offset)] if argument.offset else []
        terms += [f"{self.dialect.identifier(counter)} * {stride}" for counter, stride in argument.strides]
        move = "".join(f" + {t}" for t in terms)
        if slot.role in (Role.INPUT, Role.OUTPUT) or (slot.role is Role.CONSTANT and self.inside and slot.size):
            return f"{slot.symbol}{move}"
        if slot.role is Role.CONSTANT:
            block = f"(const {kind} *)((const unsigned char *)weights + {self.places[slot]})" if not self.inside else f"(const {kind} *)0"
            return f"{block}{move}"
        block = "arena" if slot.role is Role.TEMPORARY else "state"
        const = "" if written else "const "
        start = f"({const}{kind} *)(({const}unsigned char *){block} + {slot.offset})" if slot.nbytes else f"({const}{kind} *){block}"
        return f"{start}{move}"


def _constant(value: Any, dtype: DType) -> str:
    text = literal(value, dtype)
    cast = f"({TYPES[dtype]})"
    return text.removeprefix(cast)


def _arguments(steps: tuple[Step, ...]) -> Iterator[Argument]:
    from xlac_sdk.program import walk

    for step in walk(steps):
        match step:
            case Launch(arguments=arguments) | Call(arguments=arguments):
                yield from arguments
            case Copy(target=target, source=source):
                yield target
                yield source
            case While(flag=flag):
                yield flag
            case Branch(index=index):
                yield index
            case Repeat():
                pass
