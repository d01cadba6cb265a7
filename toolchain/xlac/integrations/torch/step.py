"""`xlac.torch_step`: a training step of a PyTorch module as one program and one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xlac.frontends.torch.fx_nodes import dtype_of
from xlac.integrations.torch import optimizers
from xlac.integrations.torch.learning_export import Loss, LossModule, loss_program
from xlac.integrations.torch.optimizers import COUNT, refuse
from xlac.integrations.torch.step_failure import check_ranges, not_finite
from xlac.integrations.torch.step_graph import GradientSums, StepBuilder
from xlac.integrations.torch.step_program import (
    StepProgram,
    check_parameters,
    compiled_step,
    learned_parameters,
)
from xlac.model import PRECISIONS
from xlac.runtime.programs import Programs
from xlac.support.failures import Asked
from xlac_sdk.dtypes import DType
from xlac_sdk.support.choices import chosen
from xlac_sdk.support.counts import number_of
from xlac_sdk.support.limits import checkpoint, within

VARIANTS = 8  # of options of the optimizer, for which programs are made


class TorchStep:
    """A training step. It is called with the module's arguments followed by those of the loss, and
    returns the loss before the update, a scalar tensor without a gradient.

    Parameters, buffers and optimizer state are PyTorch's own tensors, updated in place:
    `state_dict` of both, learning-rate schedules and checkpoints work as without xlac. A program is
    compiled for each set of shapes, of training modes, and of hyperparameters other than the
    learning rate. Of `accumulate` calls the last updates the parameters; `waiting` counts those
    since it did.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss | None,
        optimizer: torch.optim.Optimizer,
        targets: int,
        clip: float | None,
        accumulate: int,
        options: dict[str, Any],
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise refuse(f"the model must be a torch.nn.Module, not {type(model).__name__}")
        if loss is not None and not callable(loss):
            raise refuse(
                f"the loss must be a function, not {type(loss).__name__}",
                "None takes the model's own",
            )
        self.model, self.optimizer = model, optimizer
        self._module = LossModule(model, loss, targets)
        self._rule = optimizers.rule_of(optimizer)
        self._clip, self._precision, self._options = clip, options.pop("precision"), options
        self._compute, self._finite = DType(options.pop("compute")), options.pop("finite")
        self.accumulate, self.waiting = accumulate, 0
        self._sums: dict[torch.Tensor, torch.Tensor] = {}
        self._modules = list(self._module.modules())
        self._programs: Programs[StepProgram] = Programs()
        self._variants: set[Any] = set()
        check_parameters(self._module, optimizer, self._rule)

    def __repr__(self) -> str:
        rule = type(self.optimizer).__name__
        programs = number_of(len(self._programs), "program")
        return f"<TorchStep of {type(self.model).__name__} by {rule}, {programs}>"

    def __call__(self, /, *args: Any, **named: Any) -> torch.Tensor:
        return self.part(args, named, 1 / self.accumulate, self.waiting + 1 == self.accumulate)

    def part(
        self, args: tuple[Any, ...], named: dict[str, Any], share: float, last: bool
    ) -> torch.Tensor:
        """A call whose gradients have the weight `share` in the sum that the `last` call updates
        the parameters by.
        """
        leaves, nest = pytree.tree_flatten((args, named))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        groups = self.optimizer.param_groups
        pairs, numbers = self._pairs(groups)
        options = tuple(optimizers.options_of(self._rule, group) for group in groups)
        self._limit_variants(options)
        key = (
            nest,
            tuple([_argument_key(leaf) for leaf in leaves]),
            tuple([m.training for m in self._modules]),
            options,
            tuple(pairs),
            tuple([p.requires_grad for g in groups for p in g["params"]]),
            self._half(),
            last,
        )
        program = self._programs.find(key) or self._programs.get(
            key, lambda: self._make_program(args, named, pairs, last)
        )
        self._ensure_state(program)
        loss = self._run(program, tensors, [*numbers, share])
        self.waiting = 0 if last else self.waiting + 1
        if last:
            self.optimizer._opt_called = True  # learning-rate schedules warn without it
        return loss

    def discard(self) -> None:
        """Forgets the micro-batches that wait for the last one."""
        self.waiting = 0
        for sums in self._sums.values():
            sums.zero_()

    def _half(self) -> DType:
        """The type of products: that of torch.autocast around the call, or the step's own."""
        if not torch.is_autocast_enabled("cpu"):
            return self._compute
        dtype = dtype_of(torch.empty((), dtype=torch.get_autocast_dtype("cpu")))
        if dtype is not DType.BF16:
            raise refuse(
                f"torch.autocast is of {dtype}, whose gradients need a scale of the loss",
                "dtype=torch.bfloat16",
            )
        return dtype

    # ---- a call ------------------------------------------------------------------------------

    def _run(
        self, program: StepProgram, tensors: Sequence[torch.Tensor], numbers: list[float]
    ) -> torch.Tensor:
        state = [self._tensor(kept) for kept in program.graph.state]
        program.state.bind(state)
        memory = {t.untyped_storage().data_ptr() for t in state}
        args = [t.clone() if t.untyped_storage().data_ptr() in memory else t for t in tensors]
        check_ranges(program.exported.inputs, program.ranges, args)
        rates = torch.tensor(numbers, dtype=torch.float64)
        loss, finite = program.program([*args, rates])
        if not finite:
            raise not_finite(program, state, args, rates, loss, self._options)
        program.state.copy_back(state)
        torch.autograd.graph.increment_version(state)
        if self._rule.counts and program.graph.learns:
            counts = [self.optimizer.state[p.tensor][COUNT] for p in program.graph.learns]
            torch._foreach_add_(counts, 1)
        returned: torch.Tensor = loss
        return returned

    def _tensor(self, kept: Any) -> torch.Tensor:
        """The present tensor of a part of the state: an optimizer's `load_state_dict` replaces
        them.
        """
        tensor: torch.Tensor = (
            self.optimizer.state[kept.tensor][kept.slot] if kept.slot else kept.tensor
        )
        return tensor

    def _ensure_state(self, program: StepProgram) -> None:
        for learned in program.graph.learns:
            optimizers.ensure_state(
                self._rule, learned.group, self.optimizer.state[learned.tensor], learned.tensor
            )

    def _pairs(self, groups: Sequence[dict[str, Any]]) -> tuple[list[int], list[float]]:
        """The distinct pairs (learning rate, number of steps) of parameters, flat; and by parameter
        the number of its pair.
        """
        rule, state = self._rule, self.optimizer.state
        known: dict[tuple[int, float], int] = {}
        pairs, numbers = [], list[float]()
        names = tuple(rule.slots.values())
        for n, group in enumerate(groups):
            kept = names[:1] if not rule.counts else ()
            for p in group["params"]:
                steps = optimizers.steps_taken(rule, state.get(p, {}), kept)
                if (n, steps) not in known:
                    known[n, steps] = len(known)
                    numbers += [float(group["lr"]), steps]
                pairs.append(known[n, steps])
        return pairs, numbers

    def _limit_variants(self, options: Any) -> None:
        self._variants.add(options)
        if len(self._variants) > VARIANTS:
            self._variants.discard(options)
            problem = (
                "options of the optimizer change from step to step, "
                "and each needs a program of its own"
            )
            raise refuse(
                problem,
                "the rate may change freely; OneCycleLR and CyclicLR take cycle_momentum=False",
            )

    # ---- a program ---------------------------------------------------------------------------

    def _make_program(
        self, args: tuple[Any, ...], named: dict[str, Any], pairs: Sequence[int], last: bool
    ) -> StepProgram:
        limits = {k: self._options[k] for k in ("max_compile_seconds", "max_compile_memory")}
        with within(*limits.values()):
            checkpoint("reading the model")
            for leaf in pytree.tree_leaves((args, named)):
                if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                    raise refuse(
                        "an input requires a gradient, and a step has those of parameters only",
                        "x.detach()",
                    )
            with torch.autocast("cpu", enabled=False):  # products are found here
                exported = loss_program(self._module, args, named)
            changed = [n for n in exported.buffers if n in exported.inputs]
            if changed:
                raise refuse(
                    f"the model changes its input '{changed[0]}' in place",
                    "let it change a copy: x.clone()",
                )
            owned = {
                **dict(self._module.named_parameters(remove_duplicate=False)),
                **dict(self._module.named_buffers(remove_duplicate=False)),
            }
            sums = GradientSums(last, self._sums) if self.accumulate > 1 else None
            learned, half = learned_parameters(self.optimizer, self._rule, pairs), self._half()
            checked = self._finite
            graph = StepBuilder(exported, owned, learned, self._clip, half, sums, checked).graph()
            return compiled_step(exported, graph, self._precision, self._options)


def _argument_key(leaf: Any) -> Any:
    """The part of an argument that a program is compiled for."""
    if isinstance(leaf, torch.Tensor):
        return leaf.dtype, leaf.shape, leaf.device, leaf.layout, leaf.requires_grad
    return type(leaf), leaf if isinstance(leaf, int | float | bool | str | None) else repr(leaf)


def torch_step(
    model: torch.nn.Module,
    loss: Loss | None,
    optimizer: torch.optim.Optimizer,
    *,
    targets: int = 1,
    clip_norm: float | None = None,
    accumulate: int = 1,
    compute: str = "f32",
    finite: bool = False,
    target: str = "cpu",
    threads: int | None = None,
    precision: str = "default",
    checked: Asked = None,
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
) -> TorchStep:
    """A whole training step of a module as one program: `step(*inputs, target)` computes
    `loss(model(*inputs), target)`, its gradients and the optimizer's update, and returns the loss.

    The last `targets` positional arguments are the loss's. Without a loss (None) the model returns
    it: a scalar, or an object with one as `.loss`. `clip_norm` bounds the global norm of gradients;
    of `accumulate` calls the last makes the update, of the mean of their gradients; `compute` is
    the type of products, as torch.autocast has them. A call whose loss is not finite changes
    nothing and raises SourceError; with `clip_norm` or `finite` that holds for gradients too. Other
    options are those of `xlac.compile`. Raises SourceError and UnsupportedError: at once for the
    optimizer, at a call for the model.
    """
    chosen("precision", precision, PRECISIONS)
    if targets < 0 or (clip_norm is not None and not 0 < clip_norm < float("inf")):
        raise refuse("clip_norm must be a positive number, and targets a number of arguments")
    chosen("compute", compute, ("f32", "bf16"))
    if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
        raise refuse("accumulate is a number of calls")
    options = {
        "compute": compute,
        "finite": finite,
        "target": target,
        "threads": torch.get_num_threads() if threads is None else threads,
        "precision": precision,
        "checked": checked,
        "max_compile_seconds": max_compile_seconds,
        "max_compile_memory": max_compile_memory,
    }
    return TorchStep(model, loss, optimizer, targets, clip_norm, accumulate, options)
