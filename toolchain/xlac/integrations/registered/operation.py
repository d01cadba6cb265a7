"""`xlac.register_op`: makes the operations that a spec declares callable outside of specs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xlac.api import compile
from xlac.autodiff.gradient import linearize
from xlac.frontends.gradients.derivatives import derivatives
from xlac.frontends.onnx import registry
from xlac.frontends.produced import OF_USERS, produced
from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.traced_function import is_tracing
from xlac.frontends.tracing import Tensor, node_of
from xlac.integrations.registered.imported import of_onnx, of_stablehlo
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.ops.walks import substituted
from xlac.runtime.programs import Programs
from xlac.spec.declared_ops import DeclaredOps
from xlac.support.constant_key import constant_key
from xlac_sdk.dims import evaluate, symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.host.array_values import as_array
from xlac_sdk.source import Diagnostic, SourceError

DOMAIN = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*")
REGISTERED: dict[str, RegisteredOp] = {}
"""Registered operations by `DOMAIN.NAME`."""


class RegisteredOp:
    """An operation that a spec declares, made callable by `register_op`.

    Called with arrays it runs a program that is compiled once for each set of types and attributes;
    inside a function of `xlac.jit` it becomes part of that function. `torch` and `jax` are the
    operation for PyTorch and JAX.
    """

    def __init__(
        self, declared: DeclaredOps, name: str, domain: str, options: Mapping[str, Any]
    ) -> None:
        self.name, self.domain = name, domain
        self._declared, self._options = declared, dict(options)
        self._programs: Programs[Any] = Programs()
        self._torch: Any = None
        self.keeps: Any = None  # keeps PyTorch's registration alive
        self._jax: Any = None

    def __repr__(self) -> str:
        return f"<operation {self.domain}.{self.name}>"

    @property
    def operands(self) -> list[str]:
        """The names of the operands."""
        return list(self._declared.declared(self.name).inputs)

    @property
    def outputs(self) -> list[str]:
        """The names of the results."""
        return list(self._declared.declared(self.name).outputs)

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes with their defaults; None for one that must be given."""
        return dict(self._declared.declared(self.name).params)

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """One result, or a tuple of them. Raises SourceError for operands or attributes that the
        operation does not take.
        """
        if is_tracing():
            nodes = [node_of(x) if isinstance(x, Tensor) else x for x in operands]
            result_nodes = tuple(map(Tensor, self.nodes(nodes, attributes)))
            return result_nodes[0] if len(result_nodes) == 1 else result_nodes
        results = self.run([as_array(x, None, "") for x in operands], attributes)
        return results[0] if len(results) == 1 else results

    @property
    def torch(self) -> Any:
        """The operation of PyTorch, `torch.ops.DOMAIN.NAME`, with its derivative; dots in the
        domain become underscores. It is registered on first access.
        """
        if self._torch is None:
            from xlac.integrations.registered.torch_operation import registered

            self._torch = registered(self)
        return self._torch

    @property
    def jax(self) -> Any:
        """The function of JAX, with its derivative: the composite DOMAIN.NAME. Attributes are given
        by name. From the first access on the operation is the target DOMAIN.NAME of
        `jax.ffi.ffi_call`, on CPUs.
        """
        if self._jax is None:
            from xlac.integrations.registered import jax_target
            from xlac.integrations.registered.jax_function import function

            self._jax = function(self)
            key = f"{self.domain}.{self.name}"
            jax_target.register(key, lambda arrays, given: REGISTERED[key].run(arrays, given))
        return self._jax

    # ---- graphs -----------------------------------------------------------------------------

    def nodes(self, operands: Sequence[Node], attributes: Mapping[str, Any]) -> tuple[Node, ...]:
        """The results as nodes. Raises SourceError for operands or attributes that do not fit."""
        self._noted(self._alone([node.type for node in operands], attributes))
        return self._declared.apply(self.name, operands, attributes)

    def results(
        self, operands: Sequence[tuple[DType, Sequence[Any]]], attributes: Mapping[str, Any]
    ) -> list[tuple[DType, tuple[Any, ...]]]:
        """The dtypes and shapes of the results, given those of the operands. Open sizes of PyTorch
        or JAX stay symbolic. Raises SourceError.
        """
        sizes: dict[str, Any] = {}

        def dim(size: Any) -> Dim:
            if isinstance(size, int):
                return size
            known = next((name for name, other in sizes.items() if str(other) == str(size)), "")
            name = known or f"s{len(sizes)}"
            sizes[name] = size
            return symbol(name, min=1)

        types = [Type(dtype, tuple(map(dim, shape))) for dtype, shape in operands]
        outputs = self._alone(types, attributes).outputs.values()
        return [(n.type.dtype, tuple(evaluate(d, sizes) for d in n.shape)) for n in outputs]

    def pulled_back(
        self, operands: Sequence[Node], cotangents: Sequence[Node], attributes: Mapping[str, Any]
    ) -> tuple[Node, ...]:
        """The cotangents of the float operands, given those of the float results."""
        types = [node.type for node in (*operands, *cotangents)]
        graph = self._noted(self._gradient(types, attributes))
        values = dict(zip(graph.inputs, (*operands, *cotangents), strict=True))
        return tuple(substituted(list(graph.outputs.values()), values))

    def _noted(self, graph: Graph) -> Graph:
        OF_USERS.update(produced(graph))
        return graph

    def _gradient(self, types: Sequence[Type], attributes: Mapping[str, Any]) -> Graph:
        """The derivative, as a graph whose inputs are the operands and the cotangents of float
        results.
        """
        count = len(self.operands)
        body = self._declared.alone(self.name, types[:count], attributes)
        values = [node for node in body.outputs.values() if node.type.dtype.is_float]
        wrt = [node for node in body.inputs if node.type.dtype.is_float]
        given = [Node.of(Param(f"d{n}", node.type)) for n, node in enumerate(values)]
        if [node.type for node in given] != list(types[count:]):
            problem = f"{self.name}: the derivative takes {', '.join(str(g.type) for g in given)}"
            raise SourceError(Diagnostic("XL6001", problem))
        with derivatives(self.name):
            cotangents = linearize(values, wrt).transposed(given)
        names = [f"d_{node.op.name}" for node in wrt]  # type: ignore[attr-defined]
        outputs = dict(zip(names, cotangents, strict=True))
        return Graph(f"{self.name}_gradient", (*body.inputs, *given), outputs)

    # ---- programs ---------------------------------------------------------------------------

    def run(
        self, arrays: Sequence[Array], attributes: Mapping[str, Any], backward: bool = False
    ) -> tuple[Array, ...]:
        """The results, or with `backward` the cotangents of the float operands, given the operands
        and the cotangents of the float results.
        """
        types = tuple(Type(DType.of(a.dtype), a.shape) for a in arrays)
        given = tuple((name, constant_key(value)) for name, value in sorted(attributes.items()))
        key = backward, types, given
        program = self._programs.get(key, lambda: self._compiled(types, attributes, backward))
        outputs = program(*arrays)
        return tuple(outputs.values()) if isinstance(outputs, dict) else (np.asarray(outputs),)

    def _compiled(
        self, types: Sequence[Type], attributes: Mapping[str, Any], backward: bool
    ) -> Any:
        make = self._gradient if backward else self._alone
        return compile(Model(make(types, attributes), {}), **self._options)

    def _alone(self, types: Sequence[Type], attributes: Mapping[str, Any]) -> Graph:
        return self._declared.alone(self.name, types, attributes)


def register_op(
    spec: str | Path | Mapping[str, Any],
    *,
    domain: str = "xlac",
    target: str = "cpu",
    allow_kernels: bool | None = None,
    folder: str | Path = ".",
    **options: Any,
) -> dict[str, RegisteredOp]:
    """Makes the operations in the `ops` section of a spec callable by name.

    `spec` is a file, or the section itself as a mapping; kernels are files below `folder`. Returns
    the operations by name; each can be called with arrays, and inside `xlac.jit`. From then on ONNX
    nodes of the domain, and StableHLO composites and custom calls `DOMAIN.NAME`, are imported as
    these operations; `op.torch` and `op.jax` register them with PyTorch and JAX.

    A direct call is compiled for `target`; `allow_kernels` permits its hand-written kernels, which
    are code, and `options` are further ones of `xlac.compile`. In a model, the options of the
    model's own compilation apply.

    Raises SourceError for an invalid spec, and for a name that is already registered.
    """
    if DOMAIN.fullmatch(domain) is None:
        problem = f"{domain!r} is not a domain: words of letters, digits and _ with points between"
        raise SourceError(Diagnostic("XL6007", problem))
    declared = (
        DeclaredOps.of(spec, Path(folder)) if isinstance(spec, Mapping) else DeclaredOps.read(spec)
    )
    taken = [name for name in declared.names if f"{domain}.{name}" in REGISTERED]
    for name in declared.names:
        if registry.find(domain, name, 1 << 30) or f"{domain}.{name}" in CUSTOM_CALLS:
            taken += [] if name in taken else [name]
    if taken:
        problem = f"{domain}.{taken[0]} is registered already"
        hint = "give another domain, or the operation another name"
        raise SourceError(Diagnostic("XL1021", problem, declared.place(taken[0]), hint))
    options = {"target": target, "allow_kernels": allow_kernels, **options}
    registered = {name: RegisteredOp(declared, name, domain, options) for name in declared.names}
    for name, op in registered.items():
        REGISTERED[f"{domain}.{name}"] = op
        registry.operator(name, domain=domain)(of_onnx(op))
        CUSTOM_CALLS[f"{domain}.{name}"] = of_stablehlo(op)
    return registered
