"""Hand-written kernels: a launch whose only statement calls the function.

The function gets the operands, the results, the sizes, the attributes, and what it declares:
scratch memory; on a CPU, the range of a size that the call is for; on a GPU, shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import CHUNKS, share
from xlac.codegen.core.lowered_group import LoweredGroup, LowerPart, Scratch
from xlac.fusion import cost
from xlac.fusion.group import Group, picked
from xlac.ir.dims import Dim, size_hint
from xlac.ops.control.custom_op import CustomOp, KernelFile
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Buffer,
    Const,
    Expr,
    For,
    HandWritten,
    If,
    Instruction,
    LoopKind,
    Space,
    Stmt,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

CALL = "hand_written"  # the instruction's name


def lower(group: Group, target: Target, name: str, lower_part: LowerPart) -> LoweredGroup:
    """The launch of a CUSTOM group."""
    op = group.anchor.op
    assert isinstance(op, CustomOp)
    kernel = op.kernel(target.name)
    assert kernel is not None, "a group is CUSTOM only where there is a kernel"
    calling = _Calling(group, target, op, kernel)
    calling.write()
    launch = calling.elements.launch(name, cost.work(group), f"hand-written: {kernel.file}")
    return LoweredGroup((launch,), note=f"hand-written in {kernel.file}: nothing is fused into it")


@dataclass(frozen=True, slots=True)
class _Calling:
    """Writes one launch."""

    group: Group
    target: Target
    op: CustomOp
    kernel: KernelFile
    builder: Builder = field(default_factory=Builder)
    elements: Elements = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "elements", Elements(self.builder, self.group, self.target))

    def write(self) -> None:
        """Writes the body of the kernel."""
        given = self._arrays() + self._numbers()
        scratch = -1
        if self.kernel.scratch != 0:
            scratch = len(given)
            room = Scratch(DType.U8, self.kernel.scratch)
            given.append(self.elements.parameter(room, Access.REREAD))
        types = tuple((n, v) for n, v in self.op.attributes if isinstance(v, DType))
        code = HandWritten(
            f"hand_{self.kernel.function}_{self.op.digest()}",
            self.kernel.function,
            self.kernel.text,
            self.kernel.file,
            self.kernel.language,
            types,
            scratch,
        )
        if self.kernel.launched:
            self._grid(code, given)
        elif self.kernel.split:
            self._split(code, given)
        else:
            self._call(code, given)

    def _arrays(self) -> list[Expr | Buffer]:
        """The operands, and all results; one that nothing reads is scratch memory."""
        anchor = self.group.anchor
        arrays: list[Expr | Buffer] = [self.elements.parameter(i) for i in anchor.inputs]
        read = {index: node for node, index in picked(self.group)}
        for index, type in enumerate(anchor.results):
            value = read.get(index) or Scratch(type.dtype, type.size)
            arrays.append(self.elements.parameter(value, Access.REREAD))
        return arrays

    def _numbers(self) -> list[Expr | Buffer]:
        """The sizes, and the numeric attributes."""
        numbers: list[Expr | Buffer] = [build.lift(size) for _, size in self.op.sizes]
        for _, value in self.op.attributes:
            if not isinstance(value, DType):
                kind = DType.F64 if isinstance(value, float) else DType.I64
                numbers.append(Const(value, kind))
        return numbers

    def _call(self, code: HandWritten, given: list[Expr | Buffer]) -> None:
        self.builder.emit(Instruction(CALL, tuple(given), (), code))

    def _split(self, code: HandWritten, given: list[Expr | Buffer]) -> None:
        """Calls for ranges of a size, shared by threads if there is enough work."""
        count: Dim = dict(self.op.sizes)[self.kernel.split]
        work = cost.work(self.group)
        each = max(work.flops, work.bytes) // max(1, size_hint(count))
        shared = self.target.threads > 1 and share(self.target, [Run(count, ())], each).loops
        whole = build.lift(count)
        if not shared:
            self._call(code, [*given, build.index(0), whole])
            return
        parts = CHUNKS * self.target.threads
        part = Var("part", build.INDEX, 1, 0, parts - 1)
        begin, end = (build.div(build.mul(build.add(part, more), whole), parts) for more in (0, 1))
        call = Instruction(CALL, (*given, begin, end), (), code)
        body = If(build.apply(Primitive.LT, begin, end), (call,))
        self.builder.emit(
            For(part, build.index(0), build.index(parts), (body,), kind=LoopKind.PARALLEL)
        )

    def _grid(self, code: HandWritten, given: list[Expr | Buffer]) -> None:
        """A launch of thread blocks, all of which call the function."""
        kernel, zero = self.kernel, build.index(0)
        allocations: tuple[Stmt, ...] = ()
        if kernel.shared:
            memory = Buffer("shared", DType.U8, kernel.shared, Space.SHARED, Access.UPDATE)
            allocations, given = (Allocate(memory),), [*given, memory]
        call = Instruction(CALL, tuple(given), (), code)
        block, thread = (Var(name, build.INDEX, 1, 0) for name in ("block", "thread"))
        threads = build.index(kernel.threads)
        inner = For(thread, zero, threads, (call,), kind=LoopKind.THREAD)
        blocks = build.lift(kernel.blocks)
        self.builder.emit(For(block, zero, blocks, (*allocations, inner), kind=LoopKind.BLOCK))
