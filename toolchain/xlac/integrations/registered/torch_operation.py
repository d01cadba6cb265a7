"""Registered operations in PyTorch: `torch.ops.DOMAIN.NAME`, with shapes and derivative, also in
compiled graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from xlac.frontends.torch.fx_nodes import dtype_of
from xlac.frontends.torch.operations import OF_USERS
from xlac.frontends.torch.table import BUILDERS, AtenCall
from xlac.frontends.torch.tensors import TORCH, array_of, tensor_of
from xlac.ir.graph import Node
from xlac.ir.op import Array

if TYPE_CHECKING:
    from xlac.integrations.registered.operation import RegisteredOp


def registered(op: RegisteredOp) -> Any:
    """Registers the operation with PyTorch: for CPU tensors, with a derivative, and as a builder
    for graphs that xlac compiles. Returns it.
    """
    space, name = op.domain.replace(".", "_"), op.name
    back = f"{name}_backward"
    forward = f"{space}::{name}", f"{space}::{back}"
    library = torch.library.Library(space, "FRAGMENT")
    tensors = [f"Tensor {operand}" for operand in op.operands]
    attributes = [_argument(key, default) for key, default in op.attributes.items()]
    more = ["*", *attributes] if attributes else []
    results = ", ".join(["Tensor"] * len(op.outputs))
    given = [f"Tensor[] {op.operands[0]}_and_all", "Tensor[] cotangents"]
    library.define(f"{name}({', '.join([*tensors, *more])}) -> ({results})")
    library.define(f"{back}({', '.join([*given, *more])}) -> Tensor[]")

    def call(*operands: torch.Tensor, **named: Any) -> Any:
        operatorts = [_owned(a) for a in op.run([array_of(x) for x in operands], named)]
        return operatorts[0] if len(operatorts) == 1 else tuple(operatorts)

    def pull(operands: Sequence[torch.Tensor], cts: Sequence[torch.Tensor], **named: Any) -> Any:
        arrays = [array_of(x) for x in (*operands, *cts)]
        return [_owned(a) for a in op.run(arrays, named, backward=True)]

    def shapes(*operands: torch.Tensor, **named: Any) -> Any:
        operatorts = _fake(op, operands, named)
        return operatorts[0] if len(operatorts) == 1 else tuple(operatorts)

    def moved(operands: Sequence[torch.Tensor], cts: Sequence[torch.Tensor], **named: Any) -> Any:
        return [torch.empty_like(x) for x in operands if x.is_floating_point()]

    library.impl(name, call, "CPU")
    library.impl(back, pull, "CPU")
    torch.library.register_fake(forward[0], shapes, lib=library)
    torch.library.register_fake(forward[1], moved, lib=library)
    operator = getattr(getattr(torch.ops, space), name).default
    pulled = getattr(getattr(torch.ops, space), back).default
    _differentiable(op, operator, pulled, library)
    BUILDERS[f"{space}.{name}.default"] = _builder(op)
    BUILDERS[f"{space}.{back}.default"] = _back_builder(op)
    OF_USERS.update(f"torch.ops.{space}.{each}.default" for each in (name, back))
    op.keeps = library  # PyTorch unregisters operations when their library is collected
    return operator


def _argument(key: str, default: Any) -> str:
    """An attribute in PyTorch's schema language."""
    if default is None:
        return f"Scalar {key}"
    if isinstance(default, bool):
        return f"bool {key}={default}"
    if isinstance(default, str):
        return f'str {key}="{default}"'
    return f"{type(default).__name__} {key}={default!r}"


def _differentiable(op: RegisteredOp, operator: Any, pulled: Any, library: Any) -> None:
    def keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.named = dict(keyword_only_inputs)
        several = output if isinstance(output, tuple) else (output,)
        ctx.floats = [x.is_floating_point() for x in several]

    def keep_all(ctx: Any, inputs: Any, output: Any) -> None:
        keep(ctx, inputs, {}, output)

    def backward(ctx: Any, *cotangents: Any) -> Any:
        cts = [ct.contiguous() for ct, float in zip(cotangents, ctx.floats, strict=True) if float]
        gradients = iter(pulled(list(ctx.saved_tensors), cts, **ctx.named))
        return tuple(next(gradients) if x.is_floating_point() else None for x in ctx.saved_tensors)

    torch.library.register_autograd(
        operator, backward, setup_context=keep if op.attributes else keep_all, lib=library
    )


def _fake(op: RegisteredOp, operands: Sequence[torch.Tensor], named: Any) -> list[torch.Tensor]:
    """Results without data, for tracing."""
    types = [(dtype_of(x), x.shape) for x in operands]
    results = op.results(types, named)
    return [operands[0].new_empty(shape, dtype=TORCH[dtype]) for dtype, shape in results]


def _builder(op: RegisteredOp) -> Any:
    def build(call: AtenCall, *operands: Node, **named: Any) -> Any:
        return op.nodes(operands, named)

    return build


def _back_builder(op: RegisteredOp) -> Any:
    def build(
        call: AtenCall, operands: Sequence[Node], cotangents: Sequence[Node], **named: Any
    ) -> Any:
        return op.pulled_back(operands, cotangents, named)

    return build


def _owned(array: Array) -> torch.Tensor:
    """A result as a tensor that owns its memory."""
    return tensor_of(array if array.base is None else array.copy())
