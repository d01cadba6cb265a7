"""Checks that kernels and programs say what their contract allows. A failure is a bug of the compiler.

`verify` looks at one kernel: types, lanes, scopes, what may be written, how loops may nest.
`verify_program` looks at the steps and at memory too (`lifetimes.py`).
"""

from __future__ import annotations

from xlac_sdk import grid
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import (
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
    Space,
    Splat,
    Stmt,
    Store,
    TensorMap,
    Var,
)  # fmt: skip
from xlac_sdk.primitives import Primitive, operand_dtypes
from xlac_sdk.program import Program
from xlac_sdk.semantics import FOLDABLE
from xlac_sdk.sharing import roots, walk
from xlac_sdk.source import VerifyError

P = Primitive
_BITS = frozenset({P.AND, P.OR, P.XOR, P.NOT})
_WHOLE = _BITS | {P.SHL, P.SHR, P.POPCNT, P.CLZ}  # not for floats
_FLOATS = frozenset(
    Primitive(n)
    for n in (
        "floor ceil trunc round sqrt exp log sin fma exp2 expm1 log2 log1p cos tanh sigmoid erf rsqrt atan2 ldexp".split()
    )
)
_ANY = frozenset({P.SELECT, P.CAST, P.BITCAST})  # what half types may do besides being loaded and stored
_BOOLS = _BITS | {P.LT, P.LE, P.EQ, P.NE, P.MAX, P.MIN, P.SELECT, P.CAST}


def verify(kernel: Kernel) -> None:
    """Raises VerifyError naming the kernel and what is wrong."""
    _Verifier(kernel).run()


def verify_program(program: Program) -> None:
    """Raises VerifyError for the first thing wrong in the kernels, the steps or the placing of memory."""
    from xlac_sdk.lifetimes import check

    for kernel in program.kernels:
        verify(kernel)
    check(program)


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.used: dict[str, object] = {}
        self.typed_well: set[int] = set()  # expressions looked at before, by identity: what is left to ask is what they see

    def fail(self, message: str) -> VerifyError:
        return VerifyError(f"kernel {self.kernel.name}: {message}")

    def need(self, condition: bool, message: str) -> None:
        if not condition:
            raise self.fail(message)

    def run(self) -> None:
        kernel = self.kernel
        self.identifier(kernel.name)
        names: dict[str, Var] = {}
        for buffer in kernel.parameters:
            self.identifier(buffer.name)
            self.need(buffer.name not in self.used, f"two parameters are called '{buffer.name}'")
            self.need(buffer.space is Space.GLOBAL, f"parameter '{buffer.name}' is not GLOBAL")
            self.need(not isinstance(buffer.size, int) or buffer.size >= 0, f"'{buffer.name}' has a negative size")
            self.used[buffer.name] = buffer
        for var in kernel.sizes:
            self.identifier(var.name)
            self.need(var.name not in self.used, f"'{var.name}' is declared twice")
            self.used[var.name] = names[var.name] = var
        self.block(kernel.body, names, set(), set(kernel.parameters), ())
        grid.check(kernel)

    def identifier(self, name: str) -> None:
        plain = name.isascii() and name.isidentifier()
        self.need(plain, f"'{name}' is not an identifier")

    # ---- statements --------------------------------------------------------------------------

    def block(
        self, body: tuple[Stmt, ...], names: dict[str, Var], mutable: set[str], buffers: set[Buffer],
        kinds: tuple[LoopKind, ...],
    ) -> None:  # fmt: skip
        names, mutable, buffers = dict(names), set(mutable), set(buffers)
        for stmt in body:
            self.exprs(roots(stmt), names, buffers)
            match stmt:
                case For():
                    self.loop(stmt, names, mutable, buffers, kinds, len(body))
                case Let(var=var, value=value):
                    self.bind(var, names, buffers)
                    self.alike(var, value, f"'{var.name}'")
                    if stmt.mutable:
                        mutable.add(var.name)
                case Assign(var=var, value=value):
                    self.visible(var, names)
                    self.need(var.name in mutable, f"'{var.name}' is assigned but is not mutable here")
                    self.alike(var, value, f"'{var.name}'")
                case Store():
                    self.store(stmt, buffers)
                case If(condition=condition, then=then, otherwise=otherwise):
                    self.need(condition.dtype is DType.BOOL and condition.lanes == 1, "a condition is not a scalar bool")
                    self.block(then, names, mutable, buffers, kinds)
                    self.block(otherwise, names, mutable, buffers, kinds)
                case Allocate(buffer=buffer):
                    self.identifier(buffer.name)
                    self.need(buffer.space is not Space.GLOBAL, f"'{buffer.name}' is allocated but GLOBAL")
                    self.need(isinstance(buffer.size, int) and buffer.size > 0, f"local '{buffer.name}' has no constant size")
                    taken = {b.name for b in buffers} | set(names)
                    self.need(buffer.name not in taken, f"'{buffer.name}' is declared twice")
                    buffers.add(buffer)
                case Prefetch(buffer=buffer, index=index):
                    self.reachable(buffer, buffers)
                    self.need(index.dtype.is_integer and index.lanes == 1, "a prefetch index is not a scalar integer")
                case Instruction(operands=operands, meaning=meaning):
                    for one in operands:
                        if isinstance(one, Buffer):
                            self.reachable(one, buffers)
                        elif isinstance(one, TensorMap):
                            self.tensor_map(one, buffers)
                    self.block(meaning, names, mutable, buffers, kinds)
                case Barrier():
                    self.need(LoopKind.THREAD in kinds, "a barrier stands outside every THREAD loop")
                case Await(condition=condition):
                    self.need(condition.dtype is DType.BOOL and condition.lanes == 1, "what is awaited is not a scalar bool")
                    self.need(LoopKind.THREAD in kinds, "a thread awaits something outside every THREAD loop")

    def loop(
        self, stmt: For, names: dict[str, Var], mutable: set[str], buffers: set[Buffer],
        kinds: tuple[LoopKind, ...], siblings: int,
    ) -> None:  # fmt: skip
        counter = stmt.counter
        self.need(stmt.step > 0, f"loop '{counter.name}' has step {stmt.step}")
        self.need(counter.dtype.is_integer and counter.lanes == 1, f"counter '{counter.name}' is not a scalar integer")
        for end in (stmt.start, stmt.stop):
            self.need(end.dtype is counter.dtype and end.lanes == 1, f"a bound of loop '{counter.name}' is not a scalar {counter.dtype}")
        if stmt.kind is LoopKind.PARALLEL:
            self.need(not kinds and siblings == 1, f"PARALLEL loop '{counter.name}' is not the only statement of the kernel")
        if stmt.kind is LoopKind.UNROLLED:
            fixed = isinstance(stmt.start, Const) and isinstance(stmt.stop, Const)
            self.need(fixed, f"UNROLLED loop '{counter.name}' has no constant trip count")
        if stmt.kind is LoopKind.BLOCK:
            self.need(LoopKind.THREAD not in kinds, f"BLOCK loop '{counter.name}' is inside a THREAD loop")
        inner = dict(names)
        self.bind(counter, inner, buffers)
        concurrent = stmt.kind in (LoopKind.PARALLEL, LoopKind.BLOCK, LoopKind.THREAD)
        self.block(stmt.body, inner, set() if concurrent else mutable, buffers, (*kinds, stmt.kind))

    def bind(self, var: Var, names: dict[str, Var], buffers: set[Buffer]) -> None:
        self.identifier(var.name)
        taken = var.name in names or any(b.name == var.name for b in buffers)
        self.need(not taken, f"'{var.name}' is bound again while it is visible")
        names[var.name] = var

    def store(self, stmt: Store, buffers: set[Buffer]) -> None:
        buffer, index, value, mask = stmt.buffer, stmt.index, stmt.value, stmt.mask
        name = buffer.name
        self.reachable(buffer, buffers)
        local = buffer.space is not Space.GLOBAL
        self.need(local or buffer.access is not Access.READ, f"'{name}' is only read, but written")
        self.need(value.dtype is buffer.dtype, f"a {value.dtype} is stored into '{name}', which holds {buffer.dtype}")
        self.access(name, index, value.lanes, mask)

    def access(self, name: str, index: Expr, lanes: int, mask: Expr | None) -> None:
        if not index.dtype.is_integer:
            raise self.fail(f"the index into '{name}' is a {index.dtype}")
        if index.lanes not in (1, lanes):
            raise self.fail(f"'{name}' is indexed by {index.lanes} lanes for {lanes}")
        if mask is not None:
            right = mask.dtype is DType.BOOL and mask.lanes == lanes
            self.need(right, f"the mask of an access to '{name}' is not {lanes} lanes of bool")

    def tensor_map(self, given: TensorMap, buffers: set[Buffer]) -> None:
        """A parameter, described by the kernel's sizes alone."""
        self.identifier(given.name)
        known = self.used.setdefault(given.name, given)
        self.need(known == given, f"'{given.name}' is declared twice")
        self.reachable(given.buffer, buffers)
        self.need(given.buffer.space is Space.GLOBAL, f"tensor map '{given.name}' is of no parameter")
        rank = len(given.box)
        self.need(1 <= rank <= 5 and len(given.extents) == rank == len(given.strides) + 1, f"the axes of tensor map '{given.name}'")
        whole = given.box[-1] * given.buffer.dtype.nbytes == 128 and all(0 < n <= 256 for n in given.box)
        self.need(whole, f"the box of tensor map '{given.name}' is {given.box}")
        sizes = {v.name: v for v in self.kernel.sizes}
        self.exprs((given.offset, *given.extents, *given.strides), sizes, set())

    # ---- expressions -------------------------------------------------------------------------

    def alike(self, var: Var, value: Expr, what: str) -> None:
        same = var.dtype is value.dtype and var.lanes == value.lanes
        self.need(same, f"{what} is {var.dtype}x{var.lanes} but is given {value.dtype}x{value.lanes}")

    def visible(self, var: Var, names: dict[str, Var]) -> None:
        known = names.get(var.name)
        if known is None:
            raise self.fail(f"'{var.name}' is used out of scope")
        if known is not var and known != var:
            raise self.fail(f"'{var.name}' is used as {var.dtype}x{var.lanes} but bound otherwise")

    def reachable(self, buffer: Buffer, buffers: set[Buffer]) -> None:
        if buffer not in buffers:
            raise self.fail(f"buffer '{buffer.name}' is used out of scope")

    def exprs(self, given: tuple[Expr, ...], names: dict[str, Var], buffers: set[Buffer]) -> None:
        for expr in walk(given):
            if isinstance(expr, Var):
                self.visible(expr, names)
            elif isinstance(expr, Load):
                self.reachable(expr.buffer, buffers)
            if id(expr) not in self.typed_well:
                self.expr(expr)
                self.typed_well.add(id(expr))

    def expr(self, expr: Expr) -> None:
        """What an expression may be wherever it stands."""
        self.need(expr.lanes >= 1, "an expression has no lanes")
        match expr:
            case Apply():
                self.apply(expr)
            case Const(value=value, dtype=dtype):
                self.const(value, dtype)
            case Ramp(base=base):
                self.need(base.dtype.is_integer and base.lanes == 1, "the base of a ramp is not a scalar integer")
            case Splat(value=value):
                self.need(value.lanes == 1, "a splat of a vector")
            case Load(buffer=buffer, index=index, lanes=lanes, mask=mask):
                readable = buffer.space is not Space.GLOBAL or buffer.access is not Access.WRITE
                if not readable:
                    raise self.fail(f"'{buffer.name}' is only written, but read")
                self.access(buffer.name, index, lanes, mask)
            case Fold(primitive=primitive, value=value):
                if primitive not in FOLDABLE:
                    raise self.fail(f"'{primitive.value}' cannot fold lanes")
                self.typed(primitive, value.dtype)
            case Shuffle(values=values, picks=picks):
                same = len({v.dtype for v in values}) == 1 and 1 <= len(values) <= 2
                self.need(same, "a shuffle of unequal types")
                total = sum(v.lanes for v in values)
                self.need(bool(picks) and all(0 <= p < total for p in picks), "a shuffle picks a lane that is not there")
            case Exchange(distance=distance):
                self.need(distance > 0, "an exchange over no distance")

    def const(self, value: object, dtype: DType) -> None:
        if dtype.is_float:
            fine = isinstance(value, int | float)
        elif dtype is DType.BOOL:
            fine = value in (0, 1)
        else:
            low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
            fine = isinstance(value, int) and low <= value < low + (1 << dtype.bits)
        if not fine:
            raise self.fail(f"{value!r} is not a {dtype}")

    def apply(self, expr: Apply) -> None:
        primitive, operands = expr.primitive, expr.operands
        if len(operands) != primitive.arity:
            raise self.fail(f"'{primitive.value}' is given {len(operands)} operands")
        lanes = expr.lanes
        for operand in operands:
            if operand.lanes != lanes:
                raise self.fail(f"'{primitive.value}' meets operands of other lanes")
        first = operands[0].dtype
        if primitive is P.SELECT:
            self.need(first is DType.BOOL, "the condition of a select is not bool")
            self.need(operands[1].dtype is operands[2].dtype is expr.dtype, "the branches of a select differ in type")
            return
        if primitive is P.CAST:
            return
        if primitive is P.BITCAST:
            whole = first.bits == expr.dtype.bits and DType.BOOL not in (first, expr.dtype)
            self.need(whole, f"a {first} has no bits of a {expr.dtype}")
            return
        if tuple(o.dtype for o in operands) != operand_dtypes(primitive, first):
            raise self.fail(f"'{primitive.value}' meets {', '.join(o.dtype.value for o in operands)}")
        result = DType.BOOL if primitive.is_comparison else first
        if expr.dtype is not result:
            raise self.fail(f"'{primitive.value}' of {first} is said to be {expr.dtype}")
        self.typed(primitive, first)

    def typed(self, primitive: Primitive, dtype: DType) -> None:
        """Whether a primitive works on a type at all."""
        if dtype.is_half and primitive not in _ANY:
            raise self.fail(f"'{primitive.value}' of {dtype}: halves are cast to f32 first")
        if dtype is DType.BOOL:
            wrong = primitive not in _BOOLS
        elif dtype.is_float:
            wrong = primitive in _WHOLE
        else:
            wrong = primitive in _FLOATS
        if wrong:
            raise self.fail(f"'{primitive.value}' of {dtype}")


def applies(primitive: Primitive, dtype: DType) -> bool:
    """True where a primitive takes operands of a type; what conformance cases are made from."""
    try:
        _Verifier(Kernel("asked", (), ())).typed(primitive, dtype)
    except VerifyError:
        return False
    return True
