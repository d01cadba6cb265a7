"""`xlac.from_torch`: a PyTorch module or exported program as a compiled function of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xlac.compiler import compile
from xlac.frontends.torch.exported import Exported, imported
from xlac.frontends.torch.importer import inputs_of
from xlac.frontends.torch.tensors import TORCH
from xlac.ir.dims import Sym
from xlac.ops.leaf import param
from xlac.torched.program import Input, Output, TensorProgram
from xlac_sdk.source import Diagnostic, SourceError


class Torched:
    """A compiled program of `torch.export`, called as the module was.

    Parameters are taken as they were when it was compiled. Buffers that the program changes are kept here, in
    `buffers`, and change from call to call as they would in the module.
    """

    def __init__(self, program: Any, exported: Exported, options: dict[str, Any]) -> None:
        self.exported_program = program
        self.model = exported.model
        self._exported = exported
        self.buffers = {name: _tensor(program, name).detach().clone() for name in exported.buffers if name not in exported.inputs}
        self._types = {param(n).name: n.type for n in self.model.inputs}
        self._program = self._compiled(exported, options)

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves = self._leaves(args, named)
        found = self._program([*leaves, *self.buffers.values()])
        count = len(self._exported.outputs)
        for name, value in zip(self._exported.buffers, found[count:], strict=True):
            if name in self.buffers:
                self.buffers[name] = value
            else:  # an input that the program changes in place
                leaves[self._exported.inputs.index(name)].copy_(value)
        return pytree.tree_unflatten(list(found[:count]), self.exported_program.call_spec.out_spec)

    def _leaves(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call, checked against what the model takes."""
        ordered = self.exported_program._get_flat_args_with_check(args, dict(named))[0]
        leaves = [value for value in ordered if isinstance(value, torch.Tensor)]
        wanted = [self._types[name] for name in self._exported.inputs]
        if len(leaves) != len(wanted):
            raise SourceError(Diagnostic("XL6001", f"{len(leaves)} tensors given, but the model takes {len(wanted)}"))
        for name, leaf, type in zip(self._exported.inputs, leaves, wanted, strict=True):
            fixed = all(isinstance(d, Sym) or d == size for d, size in zip(type.shape, leaf.shape, strict=False))
            if leaf.ndim != type.rank or not fixed or leaf.dtype != TORCH[type.dtype]:
                raise SourceError(Diagnostic("XL6003", f"input '{name}' is {type}, got {leaf.dtype}{list(leaf.shape)}"))
        return leaves

    def _compiled(self, exported: Exported, options: dict[str, Any]) -> TensorProgram:
        names = [*exported.inputs, *self.buffers]
        symbolic = {name: any(isinstance(d, Sym) for d in type.shape) for name, type in self._types.items()}
        inputs = [Input(at, name, None, symbolic[name]) for at, name in enumerate(names)]
        outputs = [name if not isinstance(name, str) else self._output(name) for name in exported.outputs]
        outputs += [self._output(name) for name in exported.buffers.values()]
        return TensorProgram(self.model, compile(self.model, **options), inputs, outputs, "seed" if exported.seeded else "")

    def _output(self, name: str) -> Output:
        node = self.model.graph.outputs[name]
        return Output(name, node.type.dtype, node.shape, None)


def _tensor(program: Any, name: str) -> Any:
    found = program.state_dict.get(name)
    return program.constants[name] if found is None else found


def from_torch(
    source: Any, *example_args: Any, dynamic_shapes: Any = None, target: str = "cpu", threads: int | None = None, strict: bool = False
) -> Torched:
    """A module (exported with these example arguments), or a program of `torch.export`, compiled.

    `dynamic_shapes` is that of `torch.export.export`; a `torch.export.Dim` names the size in the model. Called like
    the module, with tensors. `.model` is the model. Raises SourceError, which lists everything that xlac cannot say.
    """
    program, names = source, {}
    if isinstance(source, torch.nn.Module):
        with torch.no_grad():
            program = torch.export.export(source, tuple(example_args), dynamic_shapes=dynamic_shapes, strict=strict)
        names = _names(program, dynamic_shapes, example_args)
    elif example_args:
        raise TypeError("a program of torch.export needs no example arguments")
    exported = imported(program, names=names)
    return Torched(program, exported, {"target": target, "threads": threads or torch.get_num_threads()})


def _names(program: Any, dynamic_shapes: Any, example_args: tuple[Any, ...]) -> dict[str, str]:
    """What the user calls each size, by PyTorch's own name for it."""
    if dynamic_shapes is None:
        return {}
    given = list(dynamic_shapes.values()) if isinstance(dynamic_shapes, Mapping) else list(dynamic_shapes)
    flat = pytree.tree_leaves(given, is_leaf=lambda s: s is None or (isinstance(s, dict) and all(isinstance(k, int) for k in s)))
    asked = set(program.graph_signature.user_inputs)
    metas = [n.meta.get("val") for n in inputs_of(program.graph) if n.name in asked]
    found: dict[str, str] = {}
    for shape, meta in zip(flat, metas, strict=False):
        for axis, dim in (shape.items() if isinstance(shape, dict) else ()):
            size = meta.shape[axis] if isinstance(meta, torch.Tensor) else None
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and hasattr(dim, "__name__"):
                found[str(size.node.expr)] = dim.__name__
    return found
