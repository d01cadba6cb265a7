"""Computes elements of a group's nodes inside a kernel being built; every lowering reads values
through it.

    builder = Builder()
    elements = Elements(builder, group, target)
    with builder.loop("i", 0, rows, kind=LoopKind.PARALLEL) as i:
        with builder.loop("j", 0, columns, lanes) as j:
            elements.store(node, (i, build.ramp(j, 1, lanes)))  # to the node's parameter
    return LoweredGroup((elements.launch(name, work, note),))

* `at(node, index)` is one element, or as many as the index has lanes, in the node's *compute* dtype
  (f32 for 16-bit floats). An index has a scalar or vector entry for each axis; all vectors have one
  lane count. A result that does not vary over the lanes is a scalar: `build.apply` and `store`
  widen it.
* A node's value comes from, in this order: the binding by the lowering (`bind` to a buffer,
  `bind_value` to a function); for a group input, its parameter, or an immediate for a constant of
  equal elements (from memory if groups that share the kernel differ in it: `ScalarArgument`); for
  an Elementwise node of the group, its operation. Other nodes must be bound first.
* Every value is named by `let` in the current block and reused there and in nested blocks. So bind
  a node before reading anything that depends on it in that block.
* `with masked(mask)`: vector loads and stores of the mask's lane count read and write only where it
  is true; `with guarded(condition)`: loads read only where it is.
* Parameters are created on first use; `launch` collects them in the order inputs, outputs, others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from xlac.codegen.core.addressing import alignment, linear, plain, row_major
from xlac.codegen.core.lowered_group import KernelLaunch, Scratch, Value
from xlac.codegen.core.value_scope import ValueScope
from xlac.codegen.scalar_argument import ScalarArgument, ScalarReads
from xlac.fusion.group import Group, open_sizes, origins, ranks
from xlac.ir.dims import Dim, Sym, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise, Index, Operand
from xlac.ops.tensor import leaf
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Expr, Kernel, Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

Read = Callable[[Index], Expr]

DEPTH = 40  # nested calls of `element` before the walk restarts from the node that it had reached


class _TooDeep(Exception):
    """Unwinds Python's stack when it gets too deep; the wanted value is then computed from a
    shallow stack.
    """

    def __init__(self, node: Node, index: Index, guard: Expr | None) -> None:
        self.wanted = node, index, guard


class Elements:
    """See the module's docstring."""

    def __init__(
        self, builder: Builder, group: Group, target: Target, *, dry: bool = False
    ) -> None:
        """In a `dry` run nothing is read to get a number that another group has another of."""
        self.builder, self.group, self.target, self.dry = builder, group, target, dry
        self.mask: Expr | None = None
        self.guard: Expr | None = None  # by node and index
        self._wider: list[Expr | None] = []  # the conditions in scope
        self._reads: dict[Node, Read] = {}
        self._parameters: dict[Value, Buffer] = {}
        self._local: dict[Value, Buffer] = {}
        self._known = ValueScope(builder)
        self._numbers = ScalarReads(target)
        self._depth = 0

    # ---- parameters --------------------------------------------------------------------------

    def parameter(self, value: Value, access: Access | None = None) -> Buffer:
        """The kernel parameter for a group input (READ), an output (WRITE), a Scratch or a
        PackedConstant.

        The first call decides the access; later ones return the same buffer.
        """
        buffer = self._local.get(value) or self._parameters.get(value)
        if buffer is None:
            if isinstance(value, Node):
                output = value in self.group.outputs
                size, dtype = value.type.size, value.type.dtype
                access = access or (Access.WRITE if output else Access.READ)
                hint = "y" if output else "x"
            else:
                size, dtype, access, hint = value.size, value.dtype, access or Access.READ, "t"
            room = build.lift(size) if isinstance(size, Sym) else size
            buffer = Buffer(self.builder.fresh(hint), dtype, room, access=access)
            self._parameters[value] = buffer
        return buffer

    def used(self) -> Mapping[Value, Buffer]:
        """The parameters so far, by their values."""
        return self._parameters

    def local(self, value: Scratch) -> Buffer:
        """Replaces a parameter by a local buffer of the current block, which is then
        read instead.
        """
        assert isinstance(value.size, int)
        self._local[value] = self.builder.local("t", value.dtype, value.size)
        return self._local[value]

    def launch(self, name: str, work: Work | None = None, note: str = "") -> KernelLaunch:
        """The finished kernel, with the arguments for the parameters that were used."""
        order = ranks(self.group)
        used = sorted(
            self._parameters,
            key=lambda v: order.get(v, len(order)) if isinstance(v, Node) else len(order),
        )
        parameters = tuple(self._parameters[v] for v in used)
        note = note or self.group.reason
        sizes = open_sizes(self.group)
        taken = tuple(build.size_var(*symbols(size)) for size in sizes)
        body = self._numbers.before(self.builder.body())
        kernel = Kernel(name, parameters, body, taken, work or Work(), origins(self.group), note)
        return KernelLaunch(kernel, tuple(used), sizes)

    # ---- sources of values -------------------------------------------------------------------

    def bind(
        self,
        node: Node,
        buffer: Buffer,
        strides: Sequence[Dim] | None = None,
        offset: build.Number = 0,
        *,
        whole: bool = False,
    ) -> None:
        """Binds a node to a buffer, from which its elements are read with these element strides
        (default: row-major). Of one with room for `whole` vectors every lane is read, also those
        that a mask excludes.
        """
        steps = tuple(strides) if strides is not None else row_major(node.shape)

        def read(index: Index) -> Expr:
            where = build.add(linear(index, steps, node.shape), offset)
            if whole:
                return build.load(buffer, where, align=alignment(buffer, where))
            return self.load(buffer, where)

        self._rebind(node, read)

    def bind_value(self, node: Node, read: Read) -> None:
        """Binds a node to a function that returns its elements, in the compute dtype."""
        self._rebind(node, read)

    def _rebind(self, node: Node, read: Read) -> None:
        self._reads[node] = read
        self._known.forget(node)

    @contextmanager
    def masked(self, mask: Expr | None) -> Iterator[None]:
        """A scope in which vector loads and stores access only lanes where the mask is true."""
        outer, self.mask = self.mask, mask
        try:
            yield
        finally:
            self.mask = outer

    @contextmanager
    def guarded(self, condition: Expr | None) -> Iterator[None]:
        """A scope in which loads read only where the condition is true, and give 0 elsewhere. The
        condition is a scalar, or has as many lanes as an access.
        """
        outer = self.guard
        if condition is None:
            yield
            return
        self.guard = condition if outer is None else build.apply(Primitive.AND, outer, condition)
        self._wider.append(outer)
        try:
            yield
        finally:
            self.guard = outer
            self._wider.pop()

    # ---- reading -----------------------------------------------------------------------------

    def at(self, node: Node, index: Index) -> Expr:
        """Elements of a node at an index."""
        if self._depth:
            return self._value(node, plain(index))
        before = self.guard
        wanted = [(node, plain(index), before)]
        while True:
            wanted_node, at, self.guard = wanted[-1]
            try:
                value = self._value(wanted_node, at)
            except _TooDeep as deep:
                wanted.append(deep.wanted)
                continue
            finally:
                self._depth, self.guard = 0, before
            wanted.pop()
            if not wanted:
                return value

    def _value(self, node: Node, index: Index) -> Expr:
        known, key = self._known.of(node), (index, self.mask, self.guard)
        computed = known.get(key)
        if computed is not None:
            return computed
        for guard in self._wider:  # a value read under a weaker condition is valid here
            computed = known.get((index, self.mask, guard))
            if computed is not None:
                return computed
        if self._depth >= DEPTH:
            raise _TooDeep(node, index, self.guard)
        self._depth += 1
        value = self._compute(node, index)
        self._depth -= 1
        value = self.builder.let("v", value)
        self._known.add(node, key, value)
        return value

    def _compute(self, node: Node, index: Index) -> Expr:
        read = self._reads.get(node)
        if read is not None:
            return read(index)
        if node not in self.group.members:
            if isinstance(node.op, ScalarArgument) and not self.dry:
                return self._numbers.read(node.op, self.parameter(node.op.array), self.builder)
            if isinstance(node.op, leaf.Const) and node.op.uniform is not None:
                return node.op.element(index, node.type)
            self.bind(node, self.parameter(node))
            return self._reads[node](index)
        assert isinstance(node.op, Elementwise), f"{node.op.mnemonic} was not bound by its lowering"
        operands = (
            Operand(i.type, lambda at, when, i=i: self._when(i, plain(at), when))  # type: ignore[misc]
            for i in node.inputs
        )
        return node.op.element(index, node.type, *operands)

    def _when(self, node: Node, index: Index, when: Expr | None) -> Expr:
        """Elements of a node that exist only where a condition holds."""
        if when is None:
            return self._value(node, index)
        with self.guarded(when):
            return self._value(node, index)

    def load(self, buffer: Buffer, where: Expr) -> Expr:
        """Loads from a buffer under the mask in scope, in the compute dtype."""
        if self.guard is not None:
            where = build.splat(where, max(where.lanes, self.guard.lanes))
        mask = self.mask if self.mask is not None and where.lanes == self.mask.lanes > 1 else None
        if self.guard is not None:
            there = build.splat(self.guard, where.lanes)
            mask = there if mask is None else build.apply(Primitive.AND, mask, there)
        value = build.load(buffer, where, mask=mask, align=alignment(buffer, where))
        return build.cast(value, buffer.dtype.compute)

    # ---- writing -----------------------------------------------------------------------------

    def store(
        self, node: Node, index: Index, value: Expr | None = None, *, streaming: bool = False
    ) -> None:
        """Stores elements of an output to its parameter (row-major), rounding 16-bit floats."""
        value = self.at(node, index) if value is None else value
        where = linear(plain(index), row_major(node.shape), node.shape)
        self.store_to(self.parameter(node), where, value, streaming=streaming)

    def store_to(
        self, buffer: Buffer, where: Expr, value: Expr, *, streaming: bool = False
    ) -> None:
        """Stores a value of the compute dtype to a buffer under the mask in scope."""
        mask = self.mask if self.mask is not None and where.lanes == self.mask.lanes > 1 else None
        rounded = build.cast(value, buffer.dtype)
        self.builder.store(
            buffer, where, rounded, mask, align=alignment(buffer, where), streaming=streaming
        )

    # ---- bodies ------------------------------------------------------------------------------

    def inline(self, body: Graph, arguments: Sequence[Expr]) -> tuple[Expr, ...]:
        """The outputs of a closed graph of scalars for argument values (vectors are processed lane
        by lane).
        """
        values: dict[Node, Expr] = dict(zip(body.inputs, arguments, strict=True))
        for node in body.nodes():
            if node in values:
                continue
            assert isinstance(node.op, Elementwise), f"{node.op.mnemonic} in a reducer"
            operands = (Operand(i.type, lambda _, __, i=i: values[i]) for i in node.inputs)  # type: ignore[misc]
            values[node] = self.builder.let("v", node.op.element((), node.type, *operands))
        return tuple(values[node] for node in body.outputs.values())
