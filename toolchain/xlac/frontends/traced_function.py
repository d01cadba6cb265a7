"""Traces a Python function to a model by running it once on tensors that record operations."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from xlac.frontends.pytree import PyTree, flatten, is_number, mapped
from xlac.frontends.tracing import Number, Tensor, node_of
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, SourceError

_tracing: ContextVar[bool] = ContextVar("tracing", default=False)


def is_tracing() -> bool:
    """Whether a function is being traced in this context, so that calls of compiled functions are
    inlined.
    """
    return _tracing.get()


class Traced(NamedTuple):
    """A traced model: which leaf of the call each input takes, and the pytree of the outputs.

    `takes` has, for each input, the number of a leaf, and for a Python number the element type to
    which it is converted.
    """

    model: Model
    takes: tuple[tuple[int, DType | None], ...]
    result: PyTree


Leaf = Type | type[int] | type[float]
"""The abstract value of a leaf: the type of an array, or the kind of a number."""


def trace(name: str, traced: Callable[[list[Tensor]], Any], leaves: Sequence[Leaf]) -> Traced:
    """The model of a function of tensors, one for each leaf of a call.

    Inputs are called arg0, arg1, … and outputs out0, out1, …, in the order of the pytrees' leaves;
    a number that is used with tensors of several types becomes an input for each. Raises
    SourceError for a function that recurses without end.
    """
    inputs = [Input(name, f"arg{number}", leaf) for number, leaf in enumerate(leaves)]
    traced_body: list[Any] = []
    token = _tracing.set(True)
    try:
        result = flatten(traced([one.tensor for one in inputs]), traced_body)
    except RecursionError:
        problem = (
            f"{name}() recurses without end, or deeper than Python's {sys.getrecursionlimit()} "
            "calls"
        )
        raise SourceError(Diagnostic("XL2033", problem)) from None
    finally:
        _tracing.reset(token)
    outputs = {f"out{i}": node_of(leaf) for i, leaf in enumerate(traced_body)}
    if not outputs:
        raise SourceError(Diagnostic("XL2032", f"{name}() returned no tensor"))
    params = [
        (number, dtype, node) for number, one in enumerate(inputs) for dtype, node in one.params()
    ]
    graph = Graph(name, tuple(node for _, _, node in params), outputs)
    _closed(name, graph)
    return Traced(Model(graph, {}), tuple((number, dtype) for number, dtype, _ in params), result)


def _closed(name: str, graph: Graph) -> None:
    """Raises SourceError for a tensor that leaked out of a transformed inner function and has no
    value here.
    """
    known = set(graph.inputs)
    if any(
        isinstance(n.op, Param) and n.op.kind == "input" and n not in known for n in graph.order
    ):
        raise SourceError(
            Diagnostic(
                "XL2044",
                f"{name}() uses a tensor that a function inside it kept, and which is known only "
                "there",
                hint="return it instead: has_aux=True gives it back beside the value",
            )
        )


class Input:
    """A leaf of a call as inputs of the model: one, or for a number one for each type in which it
    is used.
    """

    def __init__(self, name: str, label: str, leaf: Leaf) -> None:
        self._name, self._label = name, label
        self._params: dict[DType | None, Node] = {}
        if isinstance(leaf, Type):
            self._params[None] = node = build.param(
                label, leaf.dtype, leaf.shape, origin=Origin(f"{name}.{label}")
            )
            self.tensor = Tensor(node)
        else:
            self.tensor = Number(build.Weak(leaf, self._typed))

    def _typed(self, dtype: DType) -> Node:
        label = f"{self._label}_{dtype}" if self._params else self._label
        self._params[dtype] = build.param(label, dtype, origin=Origin(f"{self._name}.{label}"))
        return self._params[dtype]

    def params(self) -> list[tuple[DType | None, Node]]:
        """Its inputs; those of a number with their types."""
        if not self._params:
            assert isinstance(self.tensor, Number)
            self.tensor.weak.node()
        return list(self._params.items())


def inlined(value: Any) -> Any:
    """A pytree that one traced function passes to another or receives from it, with leaves as
    tensors.
    """
    return mapped(value, _tensor)


def _tensor(value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if is_number(value):
        return Number(
            build.Weak(
                float if isinstance(value, float) else int, functools.partial(build.as_node, value)
            )
        )
    return Tensor(node_of(value))
