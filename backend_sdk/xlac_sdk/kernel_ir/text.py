"""Kernels as text for people: stable, one statement per line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Apply,
    Assign,
    Await,
    Barrier,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Ramp,
    Shuffle,
    Splat,
    Stmt,
    Store,
    TensorMap,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import named, operands, roots, walk
from xlac_sdk.support.limits import checkpoint

NOTHING: Mapping[int, str] = {}
TREE = 400  # expression nodes of a statement up to which shared parts are repeated
INFIX = {
    Primitive.ADD: "+", Primitive.SUB: "-", Primitive.MUL: "*", Primitive.DIV: "/",
    Primitive.REM: "%", Primitive.LT: "<", Primitive.LE: "<=", Primitive.EQ: "==",
    Primitive.NE: "!=", Primitive.AND: "&", Primitive.OR: "|", Primitive.XOR: "^",
    Primitive.SHL: "<<", Primitive.SHR: ">>",
}  # fmt: skip


def show(kernel: Kernel) -> str:
    """A kernel as text."""
    checkpoint()
    mark = {
        Access.READ: "",
        Access.WRITE: "out ",
        Access.REREAD: "reread ",
        Access.UPDATE: "inout ",
    }
    parameters = [f"{mark[b.access]}{b.name}: {b.dtype}[{_size(b)}]" for b in kernel.parameters]
    parameters += [f"{v.name}: size" for v in kernel.sizes]
    head = f"kernel {kernel.name}({', '.join(parameters)})"
    note = f"  // {kernel.note}" if kernel.note else ""
    return "\n".join([f"{head}{note}", *_block(kernel.body, 1)])


def expr(node: Expr, known: Mapping[int, str] = NOTHING) -> str:
    """An expression as text; vectors show their lane count where they start. `known` maps ids of
    expressions to names.
    """
    if id(node) in known:
        return known[id(node)]
    match node:
        case Const(value=value, lanes=lanes):
            return f"{value}" if lanes == 1 else f"{value}<{lanes}>"
        case Var(name=name):
            return name
        case Ramp(base=base, stride=stride, lanes=lanes):
            return f"ramp({expr(base, known)}, {stride}, {lanes})"
        case Splat(value=value, lanes=lanes):
            return f"splat({expr(value, known)}, {lanes})"
        case Load(buffer=buffer, index=index, lanes=lanes, mask=mask):
            width = f" : {lanes}" if lanes > 1 and index.lanes == 1 else ""
            guard = f" if {expr(mask, known)}" if mask is not None else ""
            return f"{buffer.name}[{expr(index, known)}{width}{guard}]"
        case Apply(
            primitive=Primitive.CAST | Primitive.BITCAST as p, operands=(value,), dtype=dtype
        ):
            return f"{p.value}({expr(value, known)}, {dtype})"
        case Apply(primitive=primitive, operands=operands):
            if primitive in INFIX:
                return f"({expr(operands[0], known)} {INFIX[primitive]} {expr(operands[1], known)})"
            return f"{primitive.value}({', '.join(expr(o, known) for o in operands)})"
        case Fold(primitive=primitive, value=value):
            return f"fold({primitive.value}, {expr(value, known)})"
        case Shuffle(values=values, picks=picks):
            return (
                f"shuffle({', '.join(expr(v, known) for v in values)}; "
                f"{', '.join(map(str, picks))})"
            )
        case Exchange(value=value, distance=distance):
            return f"exchange({expr(value, known)}, {distance})"


def _size(buffer: Buffer) -> str:
    return str(buffer.size) if isinstance(buffer.size, int) else expr(buffer.size)


def _type(var: Var) -> str:
    return f"{var.dtype}" if var.lanes == 1 else f"{var.dtype}<{var.lanes}>"


def _block(body: tuple[Stmt, ...], depth: int) -> Iterator[str]:
    pad = "    " * depth
    for stmt in body:
        known: dict[int, str] = {}
        for shared in _shared(stmt):  # as a tree it might not fit memory
            text = expr(shared, known)
            known[id(shared)] = f"%{len(known)}"
            yield f"{pad}{known[id(shared)]} = {text}"
        match stmt:
            case For():
                kind = "" if stmt.kind is LoopKind.SERIAL else f"{stmt.kind.value} "
                step = f" step {stmt.step}" if stmt.step != 1 else ""
                yield (
                    f"{pad}{kind}for {stmt.counter.name} in "
                    f"{expr(stmt.start, known)}..{expr(stmt.stop, known)}{step}:"
                )
                yield from _block(stmt.body, depth + 1)
            case Let(var=var, value=value, mutable=mutable):
                yield (
                    f"{pad}{'var' if mutable else 'let'} {var.name}: {_type(var)} = "
                    f"{expr(value, known)}"
                )
            case Assign(var=var, value=value):
                yield f"{pad}{var.name} = {expr(value, known)}"
            case Store():
                lanes = (
                    f" : {stmt.value.lanes}"
                    if stmt.value.lanes > 1 and stmt.index.lanes == 1
                    else ""
                )
                guard = f" if {expr(stmt.mask, known)}" if stmt.mask is not None else ""
                how = f" {stmt.atomic.value}=" if stmt.atomic else " ="
                flag = "  // streaming" if stmt.streaming else ""
                yield (
                    f"{pad}{stmt.buffer.name}[{expr(stmt.index, known)}{lanes}{guard}]{how} "
                    f"{expr(stmt.value, known)}{flag}"
                )
            case If(condition=condition, then=then, otherwise=otherwise):
                yield f"{pad}if {expr(condition, known)}:"
                yield from _block(then, depth + 1)
                if otherwise:
                    yield f"{pad}else:"
                    yield from _block(otherwise, depth + 1)
            case Allocate(buffer=b):
                yield f"{pad}{b.space.value} {b.name}: {b.dtype}[{_size(b)}]"
            case Barrier():
                yield f"{pad}barrier"
            case Await(condition=condition):
                yield f"{pad}await {expr(condition, known)}"
            case Prefetch(buffer=b, index=index):
                yield f"{pad}prefetch {b.name}[{expr(index, known)}]"
            case Instruction():
                yield f"{pad}{_instruction(stmt, known)}"
                yield from _block(stmt.meaning, depth + 1)


def _instruction(stmt: Instruction, known: dict[int, str]) -> str:
    """The line of an instruction, before its meaning."""
    shown = ", ".join(
        o.name if isinstance(o, Buffer | TensorMap) else expr(o, known) for o in stmt.operands
    )
    if stmt.code is not None:
        return f"{stmt.code.symbol}({shown})  // {stmt.code.file}"
    return f"{stmt.name}({shown}) means:"


def _shared(stmt: Stmt) -> list[Expr]:
    """The parts to name if the expressions of a statement are far larger as a tree than
    in memory.
    """
    sizes: dict[int, int] = {}
    for one in walk(roots(stmt)):
        sizes[id(one)] = 1 + sum(sizes[id(o)] for o in operands(one))
    large = any(sizes[id(root)] > TREE for root in roots(stmt))
    return named(roots(stmt)) if large else []
