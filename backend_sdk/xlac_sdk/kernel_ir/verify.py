"""Verifies kernels against the rules of kernel IR: types, lanes, scopes, write access, nesting of
loops. A failure is a compiler bug.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import grid
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Assign,
    Await,
    Barrier,
    Buffer,
    Const,
    Exchange,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Space,
    Stmt,
    Store,
    TensorMap,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rules.scopes import KernelScope
from xlac_sdk.kernel_ir.rules.wellformed import fault, index_fault, operand_fault
from xlac_sdk.kernel_ir.sharing import operands, roots
from xlac_sdk.source import VerifyError
from xlac_sdk.support.limits import checkpoint


def verify(kernel: Kernel) -> None:
    """Raises VerifyError that names the kernel and the violation."""
    checkpoint()
    _Verifier(kernel).run()


def applies(primitive: Primitive, dtype: DType) -> bool:
    """Whether a primitive supports operands of a type; conformance cases are derived from this."""
    return operand_fault(primitive, dtype) is None


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.used: dict[str, object] = {}
        self.stored: set[Buffer] = set()  # buffers that earlier statements store to
        # expressions that were checked, by identity: only their visibility remains to be checked
        self.typed_well: set[int] = set()
        self.for_gpus = False

    def fail(self, message: str) -> VerifyError:
        return VerifyError(f"kernel {self.kernel.name}: {message}")

    def need(self, condition: bool, message: str) -> None:
        if not condition:
            raise self.fail(message)

    def run(self) -> None:
        kernel, scope = self.kernel, KernelScope()
        self.identifier(kernel.name)
        for buffer in kernel.parameters:
            self.identifier(buffer.name)
            self.need(buffer.name not in self.used, f"two parameters are called '{buffer.name}'")
            self.need(buffer.space is Space.GLOBAL, f"parameter '{buffer.name}' is not GLOBAL")
            self.need(
                not isinstance(buffer.size, int) or buffer.size >= 0,
                f"'{buffer.name}' has a negative size",
            )
            self.used[buffer.name] = scope.names[buffer.name] = buffer
            scope.buffers.add(buffer)
        for var in kernel.sizes:
            self.identifier(var.name)
            self.need(var.name not in self.used, f"'{var.name}' is declared twice")
            self.used[var.name] = scope.names[var.name] = var
        self.block(kernel.body, scope)
        if self.for_gpus:
            grid.check(kernel)

    def identifier(self, name: str) -> None:
        if not (name.isascii() and name.isidentifier()):
            raise self.fail(f"'{name}' is not an identifier")

    # ---- statements --------------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...], scope: KernelScope) -> None:
        for stmt in body:
            self.exprs(roots(stmt), scope)
            match stmt:
                case Let(var=var, value=value):
                    self.bind(var, scope)
                    self.alike(var, value)
                    if stmt.mutable:
                        scope.mutable.add(var.name)
                case Assign(var=var, value=value):
                    self.visible(var, scope)
                    if var.name not in scope.mutable:
                        raise self.fail(f"'{var.name}' is assigned but is not mutable here")
                    self.alike(var, value)
                case Store():
                    self.store(stmt, scope)
                case For():
                    self.loop(stmt, scope, len(body))
                case If(condition=condition, then=then, otherwise=otherwise):
                    self.need(
                        condition.dtype is DType.BOOL and condition.lanes == 1,
                        "a condition is not a scalar bool",
                    )
                    self.block(then, KernelScope(scope))
                    self.block(otherwise, KernelScope(scope))
                case Allocate(buffer=buffer):
                    self.allocate(buffer, scope)
                case Prefetch(buffer=buffer, index=index):
                    self.reachable(buffer, scope)
                    self.need(
                        index.dtype.is_integer and index.lanes == 1,
                        "a prefetch index is not a scalar integer",
                    )
                case Instruction(operands=given, meaning=meaning):
                    for one in given:
                        if isinstance(one, Buffer):
                            self.reachable(one, scope)
                        elif isinstance(one, TensorMap):
                            self.tensor_map(one, scope)
                    self.block(meaning, KernelScope(scope))
                case Barrier():
                    self.for_gpus = True
                    self.need(
                        LoopKind.THREAD in scope.kinds, "a barrier stands outside every THREAD loop"
                    )
                case Await(condition=condition):
                    self.need(
                        condition.dtype is DType.BOOL and condition.lanes == 1,
                        "what is awaited is not a scalar bool",
                    )
                    self.need(
                        LoopKind.THREAD in scope.kinds,
                        "a thread awaits something outside every THREAD loop",
                    )

    def loop(self, stmt: For, scope: KernelScope, siblings: int) -> None:
        counter, kind = stmt.counter, stmt.kind
        self.need(stmt.step > 0, f"loop '{counter.name}' has step {stmt.step}")
        self.need(
            counter.dtype.is_integer and counter.lanes == 1,
            f"counter '{counter.name}' is not a scalar integer",
        )
        for end in (stmt.start, stmt.stop):
            self.need(
                end.dtype is counter.dtype and end.lanes == 1,
                f"a bound of loop '{counter.name}' is not a scalar {counter.dtype}",
            )
        if kind is LoopKind.PARALLEL:
            self.need(
                not scope.kinds and siblings == 1,
                f"PARALLEL loop '{counter.name}' is not the only statement of the kernel",
            )
        if kind is LoopKind.UNROLLED:
            fixed = isinstance(stmt.start, Const) and isinstance(stmt.stop, Const)
            self.need(fixed, f"UNROLLED loop '{counter.name}' has no constant trip count")
        if kind is LoopKind.BLOCK:
            self.need(
                LoopKind.THREAD not in scope.kinds,
                f"BLOCK loop '{counter.name}' is inside a THREAD loop",
            )
        self.for_gpus |= kind is LoopKind.BLOCK or kind is LoopKind.THREAD
        inner = KernelScope(scope, kind)
        self.bind(counter, inner)
        if kind in (LoopKind.PARALLEL, LoopKind.BLOCK, LoopKind.THREAD):
            inner.mutable = set()
        self.block(stmt.body, inner)

    def bind(self, var: Var, scope: KernelScope) -> None:
        self.identifier(var.name)
        if var.name in scope.names:
            raise self.fail(f"'{var.name}' is bound again while it is visible")
        scope.names[var.name] = var

    def allocate(self, buffer: Buffer, scope: KernelScope) -> None:
        self.identifier(buffer.name)
        self.need(buffer.space is not Space.GLOBAL, f"'{buffer.name}' is allocated but GLOBAL")
        self.need(
            isinstance(buffer.size, int) and buffer.size > 0,
            f"local '{buffer.name}' has no constant size",
        )
        self.need(buffer.name not in scope.names, f"'{buffer.name}' is declared twice")
        scope.names[buffer.name] = buffer
        scope.buffers.add(buffer)
        self.for_gpus |= buffer.space is Space.SHARED

    def store(self, stmt: Store, scope: KernelScope) -> None:
        buffer, value = stmt.buffer, stmt.value
        self.reachable(buffer, scope)
        if buffer.space is Space.GLOBAL and buffer.access is Access.READ:
            raise self.fail(f"'{buffer.name}' is only read, but written")
        if value.dtype is not buffer.dtype:
            raise self.fail(
                f"a value of type {value.dtype} is stored into '{buffer.name}', which holds "
                f"{buffer.dtype}"
            )
        if stmt.atomic is not None:
            if buffer.space is Space.GLOBAL and buffer.access is Access.WRITE:
                raise self.fail(f"'{buffer.name}' is only written, but combined with what is there")
            self.known(buffer)
        self.stored.add(buffer)
        wrong = index_fault(buffer.name, stmt.index, value.lanes, stmt.mask)
        if wrong is not None:
            raise self.fail(wrong)

    def known(self, buffer: Buffer) -> None:
        """Checks that a buffer that may only be read after it was written, has been written."""
        if buffer.access is Access.REREAD and buffer not in self.stored:
            raise self.fail(
                f"'{buffer.name}' is read only where the kernel wrote it, but read before anything "
                "was written there"
            )

    def tensor_map(self, given: TensorMap, scope: KernelScope) -> None:
        """Checks a tensor map, which must be described by the kernel's sizes alone."""
        self.identifier(given.name)
        known = self.used.setdefault(given.name, given)
        self.need(known == given, f"'{given.name}' is declared twice")
        self.reachable(given.buffer, scope)
        self.need(
            given.buffer.space is Space.GLOBAL, f"tensor map '{given.name}' is of no parameter"
        )
        rank = len(given.box)
        self.need(
            1 <= rank <= 5 and len(given.extents) == rank == len(given.strides) + 1,
            f"the axes of tensor map '{given.name}'",
        )
        whole = given.box[-1] * given.buffer.dtype.nbytes == 128 and all(
            0 < n <= 256 for n in given.box
        )
        self.need(whole, f"the box of tensor map '{given.name}' is {given.box}")
        sizes = KernelScope()
        sizes.names.update((v.name, v) for v in self.kernel.sizes)
        self.exprs((given.offset, *given.extents, *given.strides), sizes)

    # ---- expressions -------------------------------------------------------------------------

    def alike(self, var: Var, value: Expr) -> None:
        if var.dtype is not value.dtype or var.lanes != value.lanes:
            raise self.fail(
                f"'{var.name}' is {var.dtype}x{var.lanes} but is given {value.dtype}x{value.lanes}"
            )

    def visible(self, var: Var, scope: KernelScope) -> None:
        known = scope.names.get(var.name)
        if known is None:
            raise self.fail(f"'{var.name}' is used out of scope")
        if known is not var and known != var:
            raise self.fail(f"'{var.name}' is used as {var.dtype}x{var.lanes} but bound otherwise")

    def reachable(self, buffer: Buffer, scope: KernelScope) -> None:
        if buffer not in scope.buffers:
            raise self.fail(f"buffer '{buffer.name}' is used out of scope")

    def exprs(self, given: Iterable[Expr], scope: KernelScope) -> None:
        """Checks each expression once for a kernel, and its visibility once for a scope."""
        stack, visible, typed_well = [*given], scope.visible, self.typed_well
        while stack:
            expr = stack.pop()
            key = id(expr)
            if key in visible:
                continue
            visible.add(key)
            kind = type(expr)  # not `isinstance`: this is asked of each expression of a kernel
            if kind is Var:
                self.visible(expr, scope)  # type: ignore[arg-type]
            elif kind is not Const:
                if kind is Load:
                    self.reachable(expr.buffer, scope)  # type: ignore[union-attr]
                    self.known(expr.buffer)  # type: ignore[union-attr]
                elif kind is Exchange:
                    self.for_gpus = True
                stack += operands(expr)
            if key not in typed_well:
                typed_well.add(key)
                wrong = fault(expr)
                if wrong is not None:
                    raise self.fail(wrong)
