"""Converts the sub-graphs of a TensorFlow Lite model to xlac's graph: values of tensors by their
numbers, an operator after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xlac.frontends.known import DataDependent, Known, NeedsValue
from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.flatbuffer import MalformedFlatBuffer
from xlac.frontends.tflite.file.model_file import ModelFile, OperatorEntry, SubGraph
from xlac.frontends.tflite.file.tensors import COMPLEX, TensorInfo, array_of
from xlac.frontends.tflite.registry import OPERATORS
from xlac.frontends.tflite.variables import StateVariables
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac.ops.tensor.leaf import Const
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, LimitError, Origin, SourceError
from xlac_sdk.support.choices import similar
from xlac_sdk.support.limits import within

INLINE_BYTES = 1024  # smaller constants become constants of the graph, larger ones weights
OPERATIONS = 100_000  # the most xlac nodes that one operator may become
NODES = 200_000  # the most operators, those of sub-graphs counted at each use
DEPTH = 100  # the most sub-graphs inside one another
BYTES = 1 << 36  # bytes of one tensor


class MissingTensor(Exception):
    """An operator reads a result of one that could not be imported; only the latter is
    reported.
    """


class UnknownOperator(ShapeError):
    """An operator that no builder is registered for."""


@dataclass(slots=True)
class TensorScope:
    """The values of a sub-graph's tensors: by number, None where the operator that gives it failed;
    and the names of the resource variables that tensors are handles of.
    """

    graph: SubGraph
    values: dict[int, Node | None] = field(default_factory=dict)
    handles: dict[int, str] = field(default_factory=dict)


class TFLiteImporter:
    """State shared by all sub-graphs of one model: weights, known values, variables, problems."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self.weights: dict[str, Array] = {}
        self.known = Known(self.weights)
        self.variables = StateVariables()
        # for each body that is being built, what it captures: outer node -> its parameter
        self._captures: list[dict[Node, Node]] = []
        self.problems: list[Diagnostic] = []
        self.needed: set[str] = set()
        self._held: dict[tuple[int, int], Node] = {}
        # whether every size of the model's inputs is a number
        self.fixed = not any(
            graph.tensors[index].open for graph in file.graphs[:1] for index in graph.inputs
        )
        self._depth = 0
        self._built = 0
        self.scope = TensorScope(file.graphs[0])

    def run(self, graph: SubGraph, inputs: Sequence[Node]) -> list[Node]:
        """The outputs of a sub-graph for these inputs. Raises MissingTensor if an operator
        failed.
        """
        if len(inputs) != len(graph.inputs):
            raise ShapeError(
                f"sub-graph '{graph.name}' takes {len(graph.inputs)} inputs, and gets {len(inputs)}"
            )
        if self._depth >= DEPTH:
            raise ShapeError(f"sub-graphs stand more than {DEPTH} deep in each other")
        before, self.scope = self.scope, TensorScope(graph)
        self._depth += 1
        try:
            self.scope.values |= dict(zip(graph.inputs, inputs, strict=True))
            for number, operator in enumerate(graph.operators):
                self._built += 1
                if self._built > NODES:
                    problem = f"sub-graphs come to more than {NODES:,} operators"
                    raise SourceError(Diagnostic("XL7007", problem))
                self._operator(number, operator)
            return [self.value(index) for index in graph.outputs]
        finally:
            self.scope = before
            self._depth -= 1

    def body(
        self, graph: SubGraph, params: Sequence[Node], captured: dict[Node, Node]
    ) -> list[Node]:
        """The outputs of a closed body of these parameters; outer values that it reads become
        parameters, which are added to `captured`.
        """
        self.known.outside |= dict.fromkeys(params)
        self._captures.append(captured)
        try:
            return self.run(graph, params)
        finally:
            self._captures.pop()

    @property
    def inside(self) -> bool:
        """Whether a body of a loop or branch is being built."""
        return bool(self._captures)

    def captured(self, node: Node) -> Node:
        """A value from outside all bodies, as the present one reads it."""
        if isinstance(node.op, Const):
            return node
        for number, level in enumerate(self._captures):
            if node not in level:
                name = f"outer{number}_{len(level)}"
                level[node] = build.param(name, node.type.dtype, node.shape)
                self.known.outside[level[node]] = node
            node = level[node]
        return node

    def value(self, index: int) -> Node:
        """The value of a tensor. Raises MissingTensor or ShapeError."""
        values = self.scope.values
        if index not in values:
            values[index] = self._constant(self.tensor(index))
        node = values[index]
        if node is None:
            raise MissingTensor
        return node

    def tensor(self, index: int) -> TensorInfo:
        """What the file says of a tensor of the present sub-graph. Raises ShapeError."""
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
        array = array_of(info)
        if array.nbytes <= INLINE_BYTES:
            return build.constant(array)
        name = info.name
        while name in self.weights:
            name += "'"
        self.weights[name] = array
        return build.param(name, DType.of(array.dtype), array.shape, kind="weight")

    def _operator(self, number: int, operator: OperatorEntry) -> None:
        """Builds an operator. A failure is recorded; what depends on it is skipped."""
        name, place, outputs = "an operator", f"operator {number}", list[int]()
        try:
            name, custom = self.file.operator_name(operator.table)
            outputs = operator.outputs
            infos = tuple(self.tensor(index) for index in outputs)
            place = f"operator {number} ({name})"
            if infos:
                place = f"operator {number} ({name}) giving '{infos[0].name[:200]}'"
            results = self._built_by(name, custom, operator, infos)
            for index, info, result in zip(outputs, infos, results, strict=False):
                self.scope.values[index] = _placed(_checked(result, info, self.fixed), info)
            tensors = [info for info in infos if info.kind != "RESOURCE"]
            if len(results) < len(tensors):
                raise ShapeError(f"it gives {len(results)} results here, and has {len(tensors)}")
            return
        except MissingTensor:
            pass
        except NeedsValue as needs:
            self.needed |= needs.inputs
        except LimitError as error:
            raise LimitError(
                *(replace(d, message=f"{place}: {d.message}") for d in error.diagnostics)
            ) from None
        except MemoryError:
            raise LimitError(
                Diagnostic("XL4001", f"{place}: there is not enough memory to import it")
            ) from None
        except (SourceError, RecursionError, MalformedFlatBuffer):
            raise
        # options and inputs may hold anything, so builders may raise anything
        except Exception as error:
            self.problems.append(_problem(place, error))
        self.scope.values |= dict.fromkeys(outputs)

    def _built_by(
        self,
        name: str,
        custom: bytes | None,
        operator: OperatorEntry,
        outputs: tuple[TensorInfo, ...],
    ) -> tuple[Node, ...]:
        known = OPERATORS.get(name)
        if known is None:
            near = similar(name, list(OPERATORS), 3)
            kind = "custom operator" if custom is not None else "operator"
            raise UnknownOperator(
                f"{kind} {name} is not supported",
                hint=f"nearest: {', '.join(near)}" if near else "",
            )
        infos = tuple(None if i == -1 else self.tensor(i) for i in operator.inputs)
        values = tuple(None if i is None else self._operand(i) for i in infos)
        call = TFLiteCall(name, infos, values, outputs, operator.options, known.options, self)
        with within(operations=OPERATIONS):
            results = known.builder(call)
        return results if isinstance(results, tuple) else (results,)

    def _operand(self, info: TensorInfo) -> Node | None:
        """The value of an operand; None for a handle of a resource, which has no numbers."""
        if info.dtype is None and info.kind == "RESOURCE":
            return None
        if info.variable and info.index not in self.scope.values:
            return None
        return self.value(info.index)


def _checked(result: Node, info: TensorInfo, fixed: bool) -> Node:
    """The result of an operator. Raises ShapeError where the file says another type or, in a model
    whose sizes are `fixed`, another shape: what follows was made for those.
    """
    shape = (*info.shape, 2) if info.kind == COMPLEX else info.shape
    exact = fixed and info.shape and -1 not in info.signature
    if (info.dtype not in (None, result.type.dtype)) or (exact and result.shape != shape):
        raise ShapeError(
            f"it gives {result.type}, and the model says {info.kind}{list(info.signature)}"
        )
    size = volume(result.shape)
    if isinstance(size, int) and size * result.type.dtype.nbytes > BYTES:
        raise ShapeError(f"{result.type} takes more than {BYTES >> 30} GiB")
    return result


def _placed(value: Node, info: TensorInfo) -> Node:
    """The value, with its node given the model's name for messages and dumps."""
    if value.origin is not None or value.op.mnemonic in ("param", "const"):
        return value
    return Node(value.op, value.inputs, value.types, Origin(info.name))


def _problem(place: str, error: Exception) -> Diagnostic:
    hint = getattr(error, "hint", "")
    if isinstance(error, DataDependent):
        return Diagnostic("XL7003", f"{place}: {error}", hint=hint)
    if isinstance(error, ShapeError):
        code = "XL7502" if isinstance(error, UnknownOperator) else "XL7503"
        return Diagnostic(code, f"{place}: {error}", hint=hint)
    what = f"its inputs or options are invalid ({type(error).__name__}: {error})"
    return Diagnostic("XL7503", f"{place}: {what}")
