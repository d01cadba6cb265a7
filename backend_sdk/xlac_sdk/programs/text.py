"""Programs as text for people: stable, one step per line."""

from __future__ import annotations

from collections.abc import Iterator

from xlac_sdk.kernel_ir.text import expr, show
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Program,
    Repeat,
    Stamp,
    Step,
    While,
)
from xlac_sdk.support.limits import count_work

__all__ = ["expr", "show", "show_program"]


def show_program(program: Program) -> str:
    """The steps of a program, with the memory range of every argument."""
    lines = [f"program {program.name}: arena {program.arena_bytes} bytes"]
    for slot in program.slots:
        where = f" at {slot.offset}" if slot.role.value == "temporary" else ""
        label = f"  {slot.name!r}" if slot.name else ""
        lines.append(
            f"  {slot.role.value} {slot.symbol}: {slot.dtype}{list(slot.shape)}{where}{label}"
        )
    lines += _steps(program.steps, 1)
    if program.entries is not None:
        lines += ["the first state:", *_steps(program.entries.first, 1)]
        for entry in program.entries.entries:
            lines += [f"{entry.name}:", *_steps(entry.steps, 1)]
    return "\n".join(lines)


def _argument(argument: Argument) -> str:
    parts = [argument.slot.symbol]
    parts += [str(argument.offset)] if argument.offset else []
    parts += [f"{counter}*{stride}" for counter, stride in argument.strides]
    return "+".join(parts)


def _steps(steps: tuple[Step, ...], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for step in steps:
        count_work()
        match step:
            case Launch(kernel=kernel, arguments=arguments):
                yield f"{pad}{kernel.name}({', '.join(map(_argument, arguments))})"
            case Copy(target=target, source=source, count=count):
                yield f"{pad}copy {_argument(target)} <- {_argument(source)}, {count} elements"
            case Repeat(counter=counter, count=count, body=body):
                yield f"{pad}repeat {counter} in 0..{count}:"
                yield from _steps(body, depth + 1)
            case While(condition=condition, flag=flag, body=body):
                yield f"{pad}loop:"
                yield from _steps(condition, depth + 1)
                yield f"{pad}  leave unless {_argument(flag)}"
                yield from _steps(body, depth + 1)
            case Branch(index=index, branches=branches):
                for number, branch in enumerate(branches):
                    yield f"{pad}case {_argument(index)} = {number}:"
                    yield from _steps(branch, depth + 1)
            case Choice(cases=cases, otherwise=otherwise):
                for choice in cases:
                    yield f"{pad}sizes {choice.title}:"
                    yield from _steps(choice.steps, depth + 1)
                yield f"{pad}other sizes:"
                yield from _steps(otherwise, depth + 1)
            case Stamp(log=log, code=code, parts=parts):
                yield f"{pad}stamp {_argument(log)} {code}{f' parts {parts}' if parts else ''}"
            case CollectiveStart(exchange=exchange, source=source, target=target):
                about = f"{exchange.kind} over {', '.join(exchange.axes)}"
                about += f", {exchange.root}, tag {exchange.tag}" if exchange.tag else ""
                where = f"{_argument(target)} <- {_argument(source)}"
                yield f"{pad}start {exchange.number}: {about}, {where}"
            case CollectiveDone(exchange=exchange):
                yield f"{pad}done {exchange.number}"
            case Call(name=name, arguments=arguments):
                yield f"{pad}call {name}({', '.join(map(_argument, arguments))})"
