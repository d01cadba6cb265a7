"""Converts a parsed module to a graph: names are resolved, calls are inlined, regions become closed
graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from xlac.frontends.known import Known
from xlac.frontends.stablehlo.ranks.manual_scope import ManualScope
from xlac.frontends.stablehlo.scope import AssertedRange, Closed, RegionScope, Unequal
from xlac.frontends.stablehlo.shardy import module_mesh, module_meshes
from xlac.frontends.stablehlo.site import Builder, Built, OperationSite
from xlac.frontends.stablehlo.text.errors import DEPTH, OPERATIONS, MlirSource
from xlac.frontends.stablehlo.text.syntax import (
    MlirFunction,
    MlirRegion,
    Module,
    Operation,
    TensorType,
    TokenType,
    TupleType,
    ValueType,
)
from xlac.frontends.stablehlo.values import Several, Token, TypedTensor, Value, nodes_of
from xlac.ir.dims import Dim, Shape, Sym
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, SourceError

TOKEN = Type(DType.BOOL, ())
"""The type of what orders calls with side effects: a value that is always false."""


@dataclass(frozen=True, slots=True)
class RegionBody:
    """A region as a closed graph, with the values that it captures. Where it has side effects,
    `end` follows the last one, and `start`, which is no input yet, is what the first one follows.
    """

    graph: Graph
    captured: list[Value]
    start: Node
    end: Node | None

    @property
    def acts(self) -> bool:
        """Whether it has side effects."""
        return self.end is not self.start

    def threaded(self, place: int) -> Graph:
        """The graph with `start` as an input at a place, and `end` as the last output."""
        graph, end = self.graph, self.end
        assert end is not None
        inputs = (*graph.inputs[:place], self.start, *graph.inputs[place:])
        return Graph(graph.name, inputs, {**graph.outputs, "effect": end})


class StablehloImporter:
    """Walks a program once; `table` has the builder of every operation."""

    def __init__(
        self,
        source: MlirSource,
        module: Module,
        table: Mapping[str, Builder],
        weights: Mapping[str, object] | None = None,
    ) -> None:
        self.source, self.module, self.table = source, module, table
        self.known = Known({})
        self.asserted: list[AssertedRange] = []  # more than the sizes of the arguments say
        # sizes that the program asserts to be equal, by symbol
        self.equal: list[tuple[Dim, Dim]] = []
        # what the next call with side effects follows in this graph: host_calls.py
        self.effect: Node | None = None
        self.meshes = module_meshes(module.meshes, module.attributes)
        self.mesh = module_mesh(self.meshes)  # of devices; None: one of them
        self.manual: ManualScope | None = None  # the innermost computation of ranks around
        self._depth = self._count = 0
        self._path: list[str] = []

    # ---- calls and regions

    def call(
        self, name: str, arguments: Sequence[Value], fail: Callable[[str], NoReturn]
    ) -> list[Value]:
        """The results of a call; the function's body is inlined."""
        function = self.module.functions.get(name)
        if function is None:
            fail(f"there is no function {name[:80]!r}")
        if len(arguments) != len(function.arguments):
            fail(f"{name[:80]} takes {len(function.arguments)} arguments, not {len(arguments)}")
        for value, (_, type) in zip(arguments, function.arguments, strict=True):
            if problem := mismatch(value, type):
                fail(f"{name[:80]}: {problem}")
        return self.body(function, arguments)

    def body(self, function: MlirFunction, arguments: Sequence[Value]) -> list[Value]:
        """The results of a function for these arguments: its region, built at the place of the
        call.
        """
        scope = RegionScope(self)
        for (name, _), value in zip(function.arguments, arguments, strict=True):
            scope.define(name, value, function.at)
        self._path.append(function.name)
        results = self.run(function.body, scope)
        self._path.pop()
        return results

    def run(self, region: MlirRegion, scope: RegionScope) -> list[Value]:
        """The values that a region returns."""
        self._depth += 1
        if self._depth > DEPTH:
            self.source.too_much(f"calls and regions are nested more than {DEPTH} deep", region.at)
        for op in region.operations:
            if op.name == "return":
                self._depth -= 1
                return [scope.find(name, op) for name in op.operands]
            self._run(op, scope)
        self.source.fail("XL7201", "a region ends without a return", region.at)

    def region(
        self, site: OperationSite, region: MlirRegion, types: Sequence[Type] | None
    ) -> RegionBody:
        """A region as a closed graph of its arguments and captured values."""
        scope, before = Closed(self, site.scope), self.effect
        start = self.effect = Node.of(Param("effect", TOKEN))
        given = None if types is None else list(types)
        for name, type in region.arguments:
            scope.define(name, self._argument(scope, type, given, region), region.at)
        results = self.run(region, scope)
        end, self.effect = self.effect, before
        outputs = {f"y{n}": node for n, node in enumerate(nodes_of(results))}
        graph = Graph(site.name, tuple(scope.inputs), outputs)
        return RegionBody(graph, scope.captured, start, end)

    def _argument(
        self, scope: Closed, type: ValueType, given: list[Type] | None, region: MlirRegion
    ) -> Value:
        if isinstance(type, TokenType):
            return Token()
        if isinstance(type, TupleType):
            return Several(tuple(self._argument(scope, item, given, region) for item in type.items))
        assert isinstance(type, TensorType)
        count = 2 if type.element.complex else 1
        if given is None:
            if None in type.shape:
                self.source.fail(
                    "XL7212", "an argument of a region has a size that is not known", region.at
                )
            shape: Shape = tuple(n or 0 for n in type.shape)
            wanted = [Type(type.element.dtype, shape)] * count
        else:
            if len(given) < count:
                self.source.fail(
                    "XL7203",
                    "a region takes more arguments than there are values for it",
                    region.at,
                )
            wanted = [given.pop(0) for _ in range(count)]
        return TypedTensor(type.element, tuple(map(scope.parameter, wanted)))

    # ---- operations

    def _run(self, op: Operation, scope: RegionScope) -> None:
        self._count += 1
        if self._count > OPERATIONS:
            self.source.too_much(
                f"more than {OPERATIONS:,} operations, calls counted each time", op.at
            )
        builder = self.table.get(op.name)
        if builder is None:
            self.source.fail("XL7202", f"there is no operation {op.name[:80]!r}", op.at, op.width)
        site = OperationSite(self, scope, op)
        try:
            values = self.values(site, builder(site))
        except ShapeError as error:
            site.fail(str(error), error.hint)
        except (ValueError, IndexError, KeyError, TypeError, OverflowError) as error:
            # other exceptions come from malformed attributes
            site.fail(f"its attributes are invalid: {error}"[:300])
        # results may be unnamed
        for name, value in zip(op.results, values if op.results else (), strict=True):
            scope.define(name, value, op.at)

    def values(self, site: OperationSite, built: Built) -> list[Value]:
        """A builder's results as values of the types that the text states."""
        listed = list(built) if isinstance(built, list | tuple) else [built]
        op = site.op
        if len(listed) != len(op.types):
            site.fail(f"gives {len(listed)} results, and the text says {len(op.types)}")
        values: list[Value] = []
        for number, (item, type) in enumerate(zip(listed, op.types, strict=True)):
            value = item
            if isinstance(item, Node):
                if not isinstance(type, TensorType):
                    site.fail(f"result {number} is a tensor")
                value = TypedTensor(type.element, (item,))
            if not isinstance(value, TypedTensor | Token | Several):
                site.fail(f"its builder gives {value.__class__.__name__}, not a Node")
            if problem := mismatch(value, type):
                site.fail(f"result {number}: {problem}")
            values.append(self._placed(value, site, number))
        return values

    def _placed(self, value: Value, site: OperationSite, number: int) -> Value:
        """The value with its place in the text, unless it has one already."""
        if not isinstance(value, TypedTensor):
            return value
        result = site.op.results[number] if number < len(site.op.results) else site.name
        origin = Origin(
            ".".join([*self._path, result.lstrip("%")]), self.source.span(site.op.at, site.op.width)
        )
        return value.each([build.placed(node, origin) for node in value.parts])

    # ---- sizes

    def agree(self, shapes: Sequence[Shape]) -> None:
        """Unifies the symbolic sizes of shapes that must be equal. Raises Unequal."""
        for shape in shapes[1:]:
            for a, b in zip(shapes[0], shape, strict=False):
                if a != b and (isinstance(a, Sym) or isinstance(b, Sym)):
                    raise Unequal(a, b)


def united(
    graphs: Sequence[Graph], captured: Sequence[Sequence[Value]]
) -> tuple[list[Graph], list[Node]]:
    """Makes the graphs of one operation take the same captured nodes after their arguments; returns
    the graphs and these nodes.
    """
    shared = list(dict.fromkeys(node for values in captured for node in nodes_of(values)))
    extended = []
    for graph, values in zip(graphs, captured, strict=True):
        own = nodes_of(values)
        count = len(graph.inputs) - len(own)
        inner = dict(zip(own, graph.inputs[count:], strict=True))
        more = [
            inner.get(node) or Node.of(Param(f"c{n}", node.type)) for n, node in enumerate(shared)
        ]
        extended.append(Graph(graph.name, (*graph.inputs[:count], *more), graph.outputs))
    return extended, shared


def mismatch(value: Value, type: ValueType) -> str:
    """How a value differs from the type that the text states; "" if it does not."""
    if isinstance(type, TokenType):
        return "" if isinstance(value, Token) else "a token was expected"
    if isinstance(type, TupleType):
        if not isinstance(value, Several) or len(value.items) != len(type.items):
            return f"a tuple of {len(type.items)} was expected"
        return next(filter(None, map(mismatch, value.items, type.items)), "")
    if not isinstance(type, TensorType) or not isinstance(value, TypedTensor):
        return "a tensor was expected"
    sizes = value.shape
    same = len(sizes) == len(type.shape) and all(
        b is None or a == b or isinstance(a, Sym) for a, b in zip(sizes, type.shape, strict=True)
    )
    if (
        same
        and value.element == type.element
        and all(p.type.dtype is type.element.dtype for p in value.parts)
    ):
        return ""
    shown = "x".join(map(str, sizes)) + ("x" if sizes else "")
    return f"it is tensor<{shown}{value.element.text}>, not {type}"


def unsupported(
    source: MlirSource, module: Module, table: Mapping[str, Builder], refused: Mapping[str, str]
) -> None:
    """Raises one error for every operation that cannot be imported."""
    problems: list[Diagnostic] = []

    def visit(region: MlirRegion) -> None:
        for op in region.operations:
            if op.name != "return" and op.name not in table:
                reason = refused.get(op.name)
                text = (
                    f"{op.name[:80]}: {reason}"
                    if reason
                    else f"there is no operation {op.name[:80]!r}"
                )
                problems.append(
                    Diagnostic("XL7208" if reason else "XL7202", text, source.span(op.at, op.width))
                )
            for inner in op.regions:
                visit(inner)

    for function in module.functions.values():
        visit(function.body)
    if problems:
        raise SourceError(*problems[:100])
