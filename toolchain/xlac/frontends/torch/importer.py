"""Converts a graph of ATen operations (torch.fx) to a graph of xlac."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from xlac.frontends.torch import control, families
from xlac.frontends.torch.complex_tensors import (
    COMPLEX_BUILDERS,
    ComplexTensor,
    apart,
    built_complex,
    holds_complex,
)
from xlac.frontends.torch.decompositions import decompositions
from xlac.frontends.torch.errors import NotExpressible, UnsupportedNode
from xlac.frontends.torch.families.nn import checkpoints
from xlac.frontends.torch.families.nn.blocked_attention import attended
from xlac.frontends.torch.fx_nodes import (
    CHECKS,
    EFFECTS,
    dtype_of,
    inputs_of,
    is_complex,
    is_row_major,
    known_dtype,
    name_of,
    origin_of,
    output_of,
    read_results,
    tensors_in,
)
from xlac.frontends.torch.random import Randomness
from xlac.frontends.torch.sizes import Sizes
from xlac.frontends.torch.strided import scattered, strided
from xlac.frontends.torch.table import BUILDERS, AtenCall, located
from xlac.frontends.torch.tensors import DTYPES, array_of
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.source import LimitError, Origin

assert families  # importing the families registers all builders

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
SCATTERS = ("aten.as_strided_scatter.default", "prims.as_strided_scatter.default")

Values = dict[FxNode, Any]


class FxImporter:
    """Walks a graph once. A node that cannot be imported becomes an unknown value, so that all
    problems are found.
    """

    def __init__(
        self, module: GraphModule, sizes: Sizes, default: torch.dtype | None = None
    ) -> None:
        self.module, self.sizes = module, sizes
        self.random = Randomness()
        self.unsupported: list[UnsupportedNode] = []
        self._default = DTYPES[default or torch.get_default_dtype()]
        self._located: dict[Any, Node] = {}

    def run(self, inputs: Mapping[FxNode, Node | ComplexTensor | None]) -> Values:
        """The values of all nodes; `inputs` has those of tensor placeholders."""
        read = [v.real if isinstance(v, ComplexTensor) else v for v in inputs.values()]
        self._located = located([node for node in read if node is not None])
        given = {n: v for n, v in inputs.items() if v is not None or not _number(n.meta.get("val"))}
        return self._graph(self.module, given)

    def _graph(self, module: GraphModule, values: Values) -> Values:
        for node in module.graph.nodes:
            if node in values or node.op == "output":
                continue
            try:
                values[node] = self._value(module, node, values)
            except (NotExpressible, ShapeError) as error:
                values[node] = self._refused(node, str(error))
            except LimitError:
                raise
            # a bug in one builder must not hide the problems of other nodes
            except Exception as error:
                values[node] = self._refused(
                    node, f"a bug in xlac, please report it: {type(error).__name__}: {error}"
                )
        return values

    def _refused(self, node: FxNode, reason: str) -> Any:
        operation = name_of(node)
        self.unsupported.append(UnsupportedNode(node, operation, reason, operation in BUILDERS))
        return self._unknown(node)

    def _value(self, module: GraphModule, node: FxNode, values: Values) -> Any:
        meta = node.meta.get("val")
        if _number(meta) and node.op != "get_attr":
            return self._symbolic(meta)
        if node.op == "get_attr":
            return self._attribute(module, str(node.target))
        if node.op != "call_function":
            raise NotExpressible(f"a node of kind {node.op} is not part of an ATen graph")
        if node.target is operator.getitem:
            source, index = node.args
            # reported with the operation that uses it
            return self._unknown(node) if values[source] is None else values[source][index]
        operation = name_of(node)
        if operation in CHECKS:
            return None
        if operation == "with_effects" and str(node.args[1]) in EFFECTS:
            return [None] * len(node.meta["val"])
        for given in node.all_input_nodes:
            for tensor in tensors_in(given.meta.get("val")):
                dtype_of(tensor)
        args = self._argument(node.args, values)
        named = self._argument(node.kwargs, values)
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            if operation in (checkpoints.SAVED, checkpoints.AGAIN):
                return checkpoints.built(node, args, self.random, partial(self._built, named=named))
            return self._higher_order(node, operation, args)
        if operation in ("aten.as_strided.default", "aten.as_strided_copy.default"):
            args = strided(node, args, values, self.sizes)
        if operation in SCATTERS:
            args = scattered(node, args, self.sizes)
        return self._built(node, operation, args, named, node.meta["val"], read_results(node))

    def _built(
        self, node: FxNode, operation: str, args: Any, named: Any, meta: Any, used: frozenset[int]
    ) -> Any:
        """The results of an operation, of which PyTorch's are `meta`."""
        builder = BUILDERS.get(operation)
        if builder is None and operation not in COMPLEX_BUILDERS:
            raise NotExpressible("xlac has no counterpart of it")
        results, numbers = self._types(meta), is_complex(meta)
        call = AtenCall(
            results, self._located, self.random, self._default, used, numbers, is_row_major(node)
        )
        if numbers or builder is None or holds_complex((args, named)):
            built = built_complex(operation, call, builder, args, named)
        else:
            built = builder(call, *args, **named)
        several = isinstance(meta, tuple | list)
        parts = tuple(built) if isinstance(built, tuple | list) else (built,)
        if len(parts) != len(results):
            raise AssertionError(
                f"{name_of(node)} has {len(results)} results, its builder gave {len(parts)}"
            )
        for number in sorted(used):
            if several and parts[number] is None and results[number] is not None:
                raise NotExpressible(f"xlac cannot compute its result {number}, which is used")
        fitted = [
            part.each(partial(self._fitted, node, wanted))
            if isinstance(part, ComplexTensor) and wanted is not None
            else self._fitted(node, wanted, part)
            for part, wanted in zip(parts, results, strict=True)
        ]
        return fitted if several else fitted[0]

    def _fitted(self, node: FxNode, wanted: Type | None, part: Any) -> Any:
        """A result in the shape that PyTorch states, whose sizes may be spelled differently."""
        if part is None or wanted is None:
            return None
        if part.type.dtype is not wanted.dtype or part.type.rank != wanted.rank:
            raise AssertionError(
                f"{name_of(node)} gives {wanted}, but its builder made {part.type}"
            )
        pairs = zip(part.shape, wanted.shape, strict=True)
        if any(a != b and isinstance(a, int) and isinstance(b, int) for a, b in pairs):
            raise AssertionError(
                f"{name_of(node)} gives {wanted}, but its builder made {part.type}"
            )
        return build.placed(build.reshape(part, wanted.shape), origin_of(node))

    def _higher_order(self, node: FxNode, operation: str, args: Any) -> Any:
        """Higher-order operations: those that only change PyTorch's modes are inlined."""
        if operation == "wrap_with_set_grad_enabled":
            return self.inner(args[1], args[2:])
        if operation == "wrap_with_autocast":
            return self.inner(args[4], args[5:])
        if operation == "flex_attention":
            return attended(self, node, args, decompositions())
        if operation not in control.OPERATIONS:
            raise NotExpressible("xlac has no counterpart of this operation over graphs")
        meta = node.meta["val"]
        if holds_complex(args) or is_complex(meta):
            raise NotExpressible("complex numbers as its operands or results")
        results = self._types(meta)
        built = control.OPERATIONS[operation](control.HigherOrder(self, args, results))
        if len(built) != len(results):
            raise AssertionError(f"{operation} has {len(results)} results, not {len(built)}")
        fitted = [self._fitted(node, t, v) for v, t in zip(built, results, strict=True)]
        return fitted if isinstance(meta, tuple | list) else fitted[0]

    def inner(self, module: Any, values: Sequence[Any]) -> list[Any]:
        """The results of a graph inside, its operations built among those around it. Raises
        NotExpressible where some are unsupported.
        """
        if not isinstance(module, GraphModule):
            raise NotExpressible("its graph is missing")
        before = len(self.unsupported)
        outputs = self._graph(module, dict(zip(inputs_of(module.graph), values, strict=True)))
        if len(self.unsupported) > before:
            raise NotExpressible("operations of its graph are not supported")
        return [outputs[n] if isinstance(n, FxNode) else n for n in output_of(module)]

    def extents(self) -> list[Node]:
        """A scalar for each open size that inputs tell."""
        return list(self._located.values())

    def inside(self, module: GraphModule, values: Sequence[Any], extents: list[Node]) -> list[Any]:
        """The results of a closed graph, in which `extents` stand for the scalars of `extents()`.
        Raises NotExpressible, also where it draws random numbers.
        """
        outside, drawn = self._located, self.random.drawn
        self._located = dict(zip(outside, extents, strict=True))
        try:
            outputs = self.inner(module, values)
        finally:
            self._located = outside
        if self.random.drawn is not drawn:
            raise NotExpressible("its graph draws random numbers")
        return outputs

    def _types(self, meta: Any) -> tuple[Type | None, ...]:
        many = meta if isinstance(meta, tuple | list) else (meta,)
        return tuple(self.type_of(m) if isinstance(m, torch.Tensor) else None for m in many)

    def type_of(self, tensor: torch.Tensor) -> Type:
        """The type of a tensor, fake or real, or of a part of a complex one. Raises
        NotExpressible.
        """
        return Type(dtype_of(tensor), self.sizes.shape(tensor.shape))

    def _argument(self, value: Any, values: Values) -> Any:
        if isinstance(value, FxNode):
            return values[value]
        if isinstance(value, torch.dtype):
            return known_dtype(value)
        if isinstance(value, torch.device | torch.layout | torch.memory_format):
            return None
        if isinstance(value, SYMBOLIC):
            return self._symbolic(value)
        if isinstance(value, Mapping):
            return {name: self._argument(v, values) for name, v in value.items()}
        if isinstance(value, tuple | list):
            return [self._argument(v, values) for v in value]
        return value

    def _symbolic(self, value: Any) -> Any:
        if isinstance(value, torch.SymInt):
            return self.sizes.dim(value)
        if isinstance(value, torch.SymFloat | torch.SymBool):
            expr = self.sizes.fixed(value.node.expr)
            if expr.is_number or expr.is_Boolean:
                return float(expr) if isinstance(value, torch.SymFloat) else bool(expr)
            raise NotExpressible(f"the number {expr} is computed from sizes")
        return value

    def _attribute(self, module: GraphModule, target: str) -> Any:
        attribute: Any = module
        for part in target.split("."):
            attribute = getattr(attribute, part)
        if isinstance(attribute, torch.Tensor):
            self.type_of(attribute)
            value = build.constant(array_of(attribute))
            return apart(value) if attribute.is_complex() else value
        return attribute

    def _unknown(self, node: FxNode) -> Any:
        """Placeholders of the right types for a node that could not be imported; None if even the
        types are unknown.
        """
        return self._stand_in(node.meta.get("val"), node.name)

    def _stand_in(self, meta: Any, name: str) -> Any:
        if isinstance(meta, tuple | list):
            return [self._stand_in(one, f"{name}.{position}") for position, one in enumerate(meta)]
        try:
            type = self.type_of(meta) if isinstance(meta, torch.Tensor) else None
        except NotExpressible:
            type = None
        if type is None:
            return None
        unknown = build.param(name, type.dtype, type.shape, origin=Origin(name))
        return ComplexTensor(unknown, unknown) if is_complex(meta) else unknown


def _number(meta: Any) -> bool:
    """Whether a value is a number or a size."""
    return isinstance(meta, (*SYMBOLIC, int, float, bool))
