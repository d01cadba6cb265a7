"""`xlac.from_torch`: a PyTorch module or exported program as a compiled function of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils import _pytree as pytree

from xlac.api import compile
from xlac.frontends.arguments import Arguments
from xlac.frontends.pytree import endless
from xlac.frontends.torch.exported import Exported, imported
from xlac.frontends.torch.fx_nodes import inputs_of
from xlac.integrations.torch import dtensors, exporting
from xlac.integrations.torch.leaves import check_written, checked, constant
from xlac.integrations.torch.program import Output, TensorProgram, TorchInput
from xlac.ir.dims import Sym
from xlac.ir.types import Type
from xlac.model import MeshSection
from xlac.ops.tensor.leaf import param
from xlac.options import tuning_seconds
from xlac.support.failures import Asked
from xlac_sdk.host.array_values import wrong
from xlac_sdk.programs.signature import shown, sizes_of, text_of
from xlac_sdk.support.limits import checkpoint, within


class TorchFunction:
    """A compiled program of `torch.export`, called like the module.

    Parameters are constants with their values at compilation. Buffers that the program updates are
    copied to `buffers`, and each call updates them there.
    """

    def __init__(
        self,
        program: Any,
        exported: Exported,
        options: dict[str, Any],
        arguments: Arguments | None = None,
    ) -> None:
        self.exported_program = program
        self._arguments = arguments
        self.model = exported.model
        self._exported = exported
        self.buffers = {
            name: _tensor(program, name).detach().clone()
            for name in exported.buffers
            if name not in exported.inputs
        }
        self._types = {param(n).name: n.type for n in self.model.inputs}
        self._user_inputs = [
            (s.arg.name, s.arg)
            for s in program.graph_signature.input_specs
            if s.kind is InputKind.USER_INPUT
        ]
        self._name = self.model.name
        self._program = self._compiled(exported, options)

    def __repr__(self) -> str:
        names = [*self._exported.inputs, *self.buffers]
        given = {name: self._text(name, self._types[name]) for name in names}
        graph = self.model.graph.outputs
        gives = {
            name: self._text(name, graph[name].type) if name in graph else ""
            for name in map(str, self._exported.outputs)
        }
        return shown(
            "TorchFunction",
            self._name,
            given,
            gives,
            sizes_of(type.shape for type in self._types.values()),
        )

    def _text(self, name: str, type: Type) -> str:
        """The type of an input or result, as it is called with."""
        if name not in self._exported.complex:
            return text_of(type.dtype, type.shape)
        extents = text_of(type.dtype, type.shape[:-1]).partition("[")[2]
        return f"complex{2 * type.dtype.bits}[{extents}"

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        leaves = self._leaves(args, named)
        outputs = self._program([*leaves, *self.buffers.values()])
        count = len(self._exported.outputs)
        for name, value in zip(self._exported.buffers, outputs[count:], strict=True):
            if name in self.buffers:
                self.buffers[name] = value
            else:  # an input that the program changes in place
                leaves[self._exported.inputs.index(name)].copy_(value)
        return pytree.tree_unflatten(
            list(outputs[:count]), self.exported_program.call_spec.out_spec
        )

    def _leaves(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call, checked against what the model takes."""
        if self._arguments is not None:
            args, named = self._arguments.ordered(args, named)
        wanted = self.exported_program.call_spec.in_spec
        names = wanted.child(1).context if wanted.num_children == 2 else []
        if set(names or ()) == set(named):
            named = {name: named[name] for name in names or ()}
        try:
            ordered, nest = pytree.tree_flatten((tuple(args), dict(named)))
        except RecursionError:
            raise endless() from None
        if nest != wanted or len(ordered) != len(self._user_inputs):
            both = f"{_nested(nest)}, and the program takes {_nested(wanted)}"
            raise wrong("XL6001", f"the arguments are not nested as the examples were: {both}")
        tensors: dict[str, torch.Tensor] = {}
        for value, (name, expected) in zip(ordered, self._user_inputs, strict=True):
            if name in self._types and name in self._exported.inputs:
                if not isinstance(value, torch.Tensor):
                    raise wrong(
                        "XL6002", f"input '{name}' must be a tensor, not {type(value).__name__}"
                    )
                complex = name in self._exported.complex
                tensors[name] = checked(name, self._types[name], value, complex)
            elif isinstance(expected, ConstantArgument):
                constant(name, expected.value, value)
        check_written(self._exported.buffers, tensors)
        return list(tensors.values())

    def _compiled(self, exported: Exported, options: dict[str, Any]) -> TensorProgram:
        names = [*exported.inputs, *self.buffers]
        symbolic = {
            name: any(isinstance(d, Sym) for d in type.shape) for name, type in self._types.items()
        }
        inputs = [TorchInput(at, name, None, symbolic[name]) for at, name in enumerate(names)]
        outputs = [
            name if not isinstance(name, str) else self._output(name) for name in exported.outputs
        ]
        outputs += [self._output(name) for name in exported.buffers.values()]
        return TensorProgram(
            self.model,
            compile(self.model, **options),
            inputs,
            outputs,
            "seed" if exported.seeded else "",
        )

    def _output(self, name: str) -> Output:
        node, complex = self.model.graph.outputs[name], name in self._exported.complex
        shape = node.shape[:-1] if complex else node.shape
        return Output(name, node.type.dtype, shape, None, complex=complex)


def _nested(nest: Any) -> str:
    """The structure of a pytree of arguments: `((*, [*, *]), {})`."""
    args, named = pytree.tree_unflatten(["*"] * nest.num_leaves, nest)
    return f"({', '.join(map(str, args))}), {named}".replace("'*'", "*")[:300]


def _tensor(program: Any, name: str) -> Any:
    tensor = program.state_dict.get(name)
    return program.constants[name] if tensor is None else tensor


def from_torch(
    source: Any,
    *example_args: Any,
    dynamic_shapes: Any = None,
    target: str = "cpu",
    threads: int | None = None,
    strict: bool = False,
    checked: Asked = None,
    allow_kernels: bool | None = None,
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
    tune: float | bool | None = None,
) -> TorchFunction:
    """Compiles a module (exported with these example arguments), or a program of `torch.export`, to
    a function of tensors that is called like the module.

    `dynamic_shapes` is that of `torch.export.export`; a `torch.export.Dim` names the open size in
    the model. The model of a module whose parameters are DTensors has them whole, and their mesh
    and placements as its sections `mesh` and `shard`; all ranks have to call this. `checked`,
    `allow_kernels`, `tune` and the limits are those of `xlac.compile`;
    PyTorch's export is not interrupted. Raises SourceError, which lists all unsupported operations,
    or LimitError.
    """
    limits = {"max_compile_seconds": max_compile_seconds, "max_compile_memory": max_compile_memory}
    options = {
        "target": target,
        "threads": torch.get_num_threads() if threads is None else threads,
        "checked": checked,
        "allow_kernels": allow_kernels,
        "tune": tuning_seconds(tune),
        **limits,
    }
    with within(max_compile_seconds, max_compile_memory):
        checkpoint("reading the model")
        return _made(source, example_args, dynamic_shapes, strict, options)


def _made(
    source: Any,
    example_args: tuple[Any, ...],
    dynamic_shapes: Any,
    strict: bool,
    options: dict[str, Any],
) -> TorchFunction:
    program, names, arguments = source, {}, None
    ranks: MeshSection | None = None
    if isinstance(source, torch.nn.Module):
        arguments = Arguments(source.forward)
        ranks = dtensors.section_of(source) if dtensors.divided(source) else None
        with torch.no_grad(), dtensors.whole(source) if ranks else nullcontext():
            program = exporting.exported(source, tuple(example_args), dynamic_shapes, strict)
        names = _names(program, dynamic_shapes, example_args)
    elif example_args:
        raise TypeError("a program of torch.export needs no example arguments")
    with exporting.quiet():
        exported = imported(program, names=names)
    if ranks is not None:
        exported = replace(exported, model=replace(exported.model, ranks=ranks))
    function = TorchFunction(program, exported, options, arguments)
    function._name = type(source).__name__
    return function


def _names(program: Any, dynamic_shapes: Any, example_args: tuple[Any, ...]) -> dict[str, str]:
    """The user's names of open sizes, by PyTorch's names of their symbols."""
    if dynamic_shapes is None:
        return {}
    given = (
        list(dynamic_shapes.values())
        if isinstance(dynamic_shapes, Mapping)
        else list(dynamic_shapes)
    )
    flat = pytree.tree_leaves(
        given,
        is_leaf=lambda s: s is None or (isinstance(s, dict) and all(isinstance(k, int) for k in s)),
    )
    asked = set(program.graph_signature.user_inputs)
    metas = [n.meta.get("val") for n in inputs_of(program.graph) if n.name in asked]
    names: dict[str, str] = {}
    for shape, meta in zip(flat, metas, strict=False):
        for axis, dim in shape.items() if isinstance(shape, dict) else ():
            size = meta.shape[axis] if isinstance(meta, torch.Tensor) else None
            if (
                isinstance(size, torch.SymInt)
                and size.node.expr.is_Symbol
                and hasattr(dim, "__name__")
            ):
                names[str(size.node.expr)] = dim.__name__
    return names
