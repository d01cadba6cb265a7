"""Exports a module with its loss for differentiation: values computed under torch.no_grad are
marked as constants, and what only PyTorch's autograd can run (hooks, autograd.Function) is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import GraphModule

from xlac.frontends.torch.exported import Exported, imported
from xlac.integrations.torch import exporting
from xlac.integrations.torch.optimizers import refuse

Loss = Callable[..., Any]
_HOOKS = ("_backward_hooks", "_backward_pre_hooks")


class LossModule(torch.nn.Module):
    """`loss(model(*inputs), *targets)`, where the last `targets` arguments are the loss's. Without
    a loss, the model returns it: a scalar, or an object with one as `.loss`.
    """

    def __init__(self, model: torch.nn.Module, loss: Loss | None, targets: int) -> None:
        super().__init__()
        self.model, self.loss, self.targets = model, loss, targets

    def forward(self, *args: Any, **named: Any) -> Any:
        """The loss, a float scalar. Raises SourceError for any other value."""
        if self.loss is None:
            loss = self.model(*args, **named)
            loss = getattr(loss, "loss", loss)
        else:
            count = len(args) - self.targets
            if count < 0:
                raise refuse(
                    f"the loss takes {self.targets} of the arguments, and {len(args)} are given by "
                    "place"
                )
            loss = self.loss(self.model(*args[:count], **named), *args[count:])
        if not isinstance(loss, torch.Tensor):
            problem = f"the loss must be a tensor, not {type(loss).__name__}"
            raise refuse(
                problem,
                "xlac.torch_step(model, loss, optimizer): the loss is called with the model's "
                "result and the last argument",
            )
        if loss.dim() or not loss.is_floating_point():
            shape = list(loss.shape)
            raise refuse(
                f"the loss is {str(loss.dtype).removeprefix('torch.')}{shape}, and must be a "
                "scalar of a float type",
                "loss.mean() is one",
            )
        return loss


def refuse_hooks(module: torch.nn.Module) -> None:
    """Raises SourceError for hooks on the backward pass, which only PyTorch's autograd calls."""
    for name, part in module.named_modules():
        if any(getattr(part, kind, None) for kind in _HOOKS):
            raise refuse(
                f"module '{_own(name)}' has a hook on its backward pass, which a step does not call"
            )
    for name, p in module.named_parameters():
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise refuse(
                f"parameter '{_own(name)}' has a hook on its gradient, which a step does not call"
            )


def loss_program(module: LossModule, args: tuple[Any, ...], named: Mapping[str, Any]) -> Exported:
    """Exports the loss as a graph of ATen operations. Raises SourceError."""
    refuse_hooks(module)
    with torch.enable_grad(), _no_autograd_functions():
        program = exporting.exported(module, args, None, False, dict(named))
    _mark_no_grad(program.graph_module)
    with exporting.quiet():
        exported = imported(program, "step")
    if exported.complex:
        names = ", ".join(f"'{_own(name)}'" for name in sorted(exported.complex))
        problem = f"a step takes no tensors of complex numbers, as {names}"
        raise refuse(problem, "torch.compile(model, backend='xlac') does; or view_as_real of them")
    return exported


def _own(name: str) -> str:
    return name.removeprefix("model.")


@contextmanager
def _no_autograd_functions() -> Iterator[None]:
    """Refuses autograd.Functions, whose own backward tracing would ignore."""
    before = torch.autograd.Function.__dict__["apply"]

    def apply(cls: type, *args: Any, **named: Any) -> Any:
        problem = f"{cls.__name__} is an autograd.Function, whose backward only PyTorch can call"
        raise refuse(problem, "torch.compile(model, backend='xlac') takes it")

    torch.autograd.Function.apply = classmethod(apply)
    try:
        yield
    finally:
        torch.autograd.Function.apply = before


def _mark_no_grad(module: GraphModule) -> None:
    """Detaches what is computed under torch.no_grad. The import inlines those regions, so that
    nothing else would stop gradients there.
    """
    for node in list(module.graph.nodes):
        if node.target is not torch.ops.higher_order.wrap_with_set_grad_enabled or node.args[0]:
            continue
        for part in list(node.users):
            if isinstance(part.meta.get("val"), torch.Tensor):
                with module.graph.inserting_after(part):
                    detached = module.graph.call_function(torch.ops.aten.detach.default, (part,))
                detached.meta = dict(part.meta)
                part.replace_all_uses_with(
                    detached, delete_user_cb=lambda user, own=detached: user is not own
                )
    for inner in module.children():
        if isinstance(inner, GraphModule):
            _mark_no_grad(inner)
    module.recompile()
