"""Converts the sub-graphs of a TensorFlow Lite model to xlac's graph, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from xlac.frontends.importing.captures import Captures
from xlac.frontends.importing.model_importer import MissingValue
from xlac.frontends.importing.operator_importer import (
    INLINE_BYTES,
    OperatorImporter,
    UnsupportedOperator,
)
from xlac.frontends.importing.state_variables import StateVariables
from xlac.frontends.limits import check_size
from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.flatbuffer import MalformedFlatBuffer
from xlac.frontends.tflite.file.model_file import ModelFile, OperatorEntry, SubGraph
from xlac.frontends.tflite.file.tensors import COMPLEX, TensorInfo, elements
from xlac.frontends.tflite.list_writes import ListWrite, list_writes
from xlac.frontends.tflite.registry import OF_COMPLEX, OPERATORS
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build
from xlac_sdk.source import Diagnostic, Origin, SourceError
from xlac_sdk.support.choices import similar
from xlac_sdk.support.limits import within

OPERATIONS = 100_000  # xlac nodes that one operator may become, at most
REPEATED = 20_000  # operators of sub-graphs used again, counted at each further use, at most
DEPTH = 100  # nesting of sub-graphs, at most


@dataclass(slots=True)
class TensorScope:
    """The values of a sub-graph's tensors by number, None where the operator that computes it
    failed; and the names of the resource variables behind tensors that are handles.
    """

    graph: SubGraph
    values: dict[int, Node | None] = field(default_factory=dict)
    handles: dict[int, str] = field(default_factory=dict)


class TFLiteImporter(OperatorImporter):
    """State shared by all sub-graphs of one model, which begins at `graph`: weights, known values,
    variables, problems.
    """

    unsupported_code, invalid_code = "XL7502", "XL7503"
    malformed = (MalformedFlatBuffer,)

    def __init__(self, file: ModelFile, graph: SubGraph) -> None:
        super().__init__()
        self.file = file
        self.variables = StateVariables()
        # the captured values of each body being built, outermost first
        self._captures: list[Captures] = []
        self._held: dict[tuple[int, int], Node] = {}
        # whether all sizes of the model's inputs are static
        self.fixed = not any(graph.tensors[index].open for index in graph.inputs)
        self._depth = 0
        self._used: set[int] = set()  # sub-graphs that were built at least once
        self._repeated = 0
        self._written: dict[int, tuple[dict[int, ListWrite], set[int]]] = {}
        self.scope = TensorScope(graph)

    def run(self, graph: SubGraph, inputs: Sequence[Node]) -> list[Node]:
        """The outputs of a sub-graph for these inputs. Raises MissingValue if an operator
        failed.
        """
        if len(inputs) != len(graph.inputs):
            raise ShapeError(
                f"sub-graph '{graph.name}' takes {len(graph.inputs)} inputs, and gets {len(inputs)}"
            )
        if self._depth >= DEPTH:
            raise ShapeError(f"sub-graphs are nested more than {DEPTH} deep")
        before, self.scope = self.scope, TensorScope(graph)
        self._depth += 1
        again = graph.index in self._used
        self._used.add(graph.index)
        try:
            self.scope.values |= dict(zip(graph.inputs, inputs, strict=True))
            writes, slices = self._list_writes(graph)
            for number, operator in enumerate(graph.operators):
                if number in slices:
                    continue  # built together with their concatenation
                self._repeated += again
                if self._repeated > REPEATED:
                    problem = f"sub-graphs used again come to more than {REPEATED:,} operators"
                    raise SourceError(Diagnostic("XL7007", problem))
                self._operator(number, operator, writes.get(number))
            return [self.value(index) for index in graph.outputs]
        finally:
            self.scope = before
            self._depth -= 1

    def body(self, graph: SubGraph, params: Sequence[Node], captures: Captures) -> list[Node]:
        """The outputs of a closed body of these parameters; outer values that it reads become
        parameters, which `captures` holds.
        """
        self.known.outside |= dict.fromkeys(params)
        self._captures.append(captures)
        try:
            return self.run(graph, params)
        finally:
            self._captures.pop()

    @property
    def inside(self) -> bool:
        """Whether a body of a loop or branch is being built."""
        return bool(self._captures)

    def captured(self, node: Node) -> Node:
        """A value from outside all bodies, captured by the current one."""
        for captures in self._captures:
            node = captures.node(node)
        return node

    def value(self, index: int) -> Node:
        """The value of a tensor. Raises MissingValue or ShapeError."""
        values = self.scope.values
        if index not in values:
            values[index] = self._constant(self.tensor(index))
        node = values[index]
        if node is None:
            raise MissingValue
        return node

    def tensor(self, index: int) -> TensorInfo:
        """The description of a tensor of the current sub-graph. Raises ShapeError."""
        tensors = self.scope.graph.tensors
        if not 0 <= index < len(tensors):
            raise ShapeError(f"it names tensor {index}, and there are {len(tensors)}")
        return tensors[index]

    def _constant(self, info: TensorInfo) -> Node:
        """A constant tensor: a constant of the graph or, if it is large, a weight."""
        key = self.scope.graph.index, info.index
        if key not in self._held:
            self._held[key] = self._new_constant(info)
        return self.captured(self._held[key])

    def _new_constant(self, info: TensorInfo) -> Node:
        if info.data is None:
            if 0 not in info.shape or info.dtype is None:
                raise ShapeError(f"tensor '{info.name}' is read before an operator gives it")
            return build.full(0, info.shape, info.dtype)
        type, read = elements(info)
        if type.nbytes <= INLINE_BYTES:
            return self.constant(info.name, read())
        return self.unread(self.free(info.name), type, read)

    def _list_writes(self, graph: SubGraph) -> tuple[dict[int, ListWrite], set[int]]:
        """What `list_writes` finds in a sub-graph, which is looked at once."""
        if graph.index not in self._written:
            self._written[graph.index] = list_writes(self.file, graph)
        return self._written[graph.index]

    def _operator(self, number: int, operator: OperatorEntry, write: ListWrite | None) -> None:
        """Builds an operator. A failure is recorded, and operators that depend on it are
        skipped.
        """
        place = partial(self._place, number, operator)
        results = self.attempt(place, partial(self._results, operator, write))
        self.scope.values |= results or dict.fromkeys(operator.outputs)

    def _place(self, number: int, operator: OperatorEntry) -> str:
        """What messages call an operator, as far as the file says it."""
        place = f"operator {number}"
        with suppress(ShapeError):
            place = f"{place} ({self.file.operator_name(operator.table)[0]})"
            if operator.outputs:
                place = f"{place} giving '{self.tensor(operator.outputs[0]).name[:200]}'"
        return place

    def _results(self, operator: OperatorEntry, write: ListWrite | None) -> dict[int, Node | None]:
        """The values of an operator's outputs, by the numbers of their tensors."""
        if write is not None:
            (info,) = map(self.tensor, operator.outputs)
            result = write.node(self.value, self.known.constant)
            return {info.index: _placed(_checked(result, info, self.fixed), info)}
        name, custom = self.file.operator_name(operator.table)
        known = OPERATORS.get(name)
        if known is None:
            near = similar(name, list(OPERATORS), 3)
            kind = "custom operator" if custom is not None else "operator"
            raise UnsupportedOperator(
                f"{kind} {name} is not supported",
                hint=f"nearest: {', '.join(near)}" if near else "",
            )
        outputs = tuple(map(self.tensor, operator.outputs))
        infos = tuple(None if i == -1 else self.tensor(i) for i in operator.inputs)
        if name not in OF_COMPLEX and any(i is not None and i.kind == COMPLEX for i in infos):
            raise ShapeError("complex numbers are not supported here")
        values = tuple(None if i is None else self._operand(i) for i in infos)
        within_it = tuple(operator.table["intermediates"])
        call = TFLiteCall(
            name, infos, values, outputs, operator.options, known.options, self, within_it
        )
        with within(operations=OPERATIONS):
            built = known.builder(call)
        results = built if isinstance(built, tuple) else (built,)
        tensors = [info for info in outputs if info.kind != "RESOURCE"]
        if len(results) < len(tensors):
            raise ShapeError(f"it gives {len(results)} results here, and has {len(tensors)}")
        return {
            info.index: _placed(_checked(result, info, self.fixed), info)
            for info, result in zip(outputs, results, strict=False)
        }

    def _operand(self, info: TensorInfo) -> Node | None:
        """The value of an operand; None for a handle of a resource, which has no numbers."""
        if info.dtype is None and info.kind == "RESOURCE":
            return None
        if info.variable and info.index not in self.scope.values:
            return None
        return self.value(info.index)


def _checked(result: Node, info: TensorInfo, fixed: bool) -> Node:
    """The result of an operator. Raises ShapeError where the file states another type or, in a
    model whose sizes are `fixed`, another shape, as later operators rely on these.
    """
    shape = (*info.shape, 2) if info.kind == COMPLEX else info.shape
    exact = fixed and info.shape and -1 not in info.signature
    if (info.dtype not in (None, result.type.dtype)) or (exact and result.shape != shape):
        raise ShapeError(
            f"it gives {result.type}, and the model says {info.kind}{list(info.signature)}"
        )
    check_size(result.shape, result.type.dtype.nbytes)
    return result


def _placed(value: Node, info: TensorInfo) -> Node:
    """The value, named after the model's tensor for messages and dumps."""
    if value.origin is not None or value.op.mnemonic in ("param", "const"):
        return value
    return Node(value.op, value.inputs, value.types, Origin(info.name))
