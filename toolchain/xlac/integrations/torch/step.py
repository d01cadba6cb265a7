"""`xlac.torch_step`: a training step of a PyTorch module as one program and one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xlac.api import compile
from xlac.frontends.torch.exported import Exported
from xlac.integrations.torch import optimizers
from xlac.integrations.torch.bound_state import BoundState
from xlac.integrations.torch.learning_export import Loss, LossModule, loss_program
from xlac.integrations.torch.optimizers import COUNT, refuse
from xlac.integrations.torch.program import Output, TensorProgram, TorchInput
from xlac.integrations.torch.step_graph import LOSS, RATES, LearnedParameter, StepBuilder, StepGraph
from xlac.model import PRECISIONS, Model
from xlac.ops.tensor.leaf import param
from xlac.runtime.compiled import Compiled
from xlac.runtime.programs import Programs
from xlac.support.failures import Asked
from xlac_sdk.support.choices import chosen
from xlac_sdk.support.limits import checkpoint, within

VARIANTS = 8  # of options of the optimizer, for which programs are made


@dataclass(eq=False)
class StepProgram:
    """The step at one set of shapes: its program, and where its state lies."""

    graph: StepGraph
    program: TensorProgram
    state: BoundState
    exported: Exported


class TorchStep:
    """A training step. Called as the module is, with what the loss takes behind; gives the loss, of
    before the step, as a tensor without a gradient.

    Parameters, buffers and what the optimizer keeps are PyTorch's own tensors, changed in place:
    `state_dict` of both, schedules of the rate and checkpoints go on as without xlac. For each set
    of shapes, of training modes and of the optimizer's options but the rate a program is made.
    """

    def __init__(
        self, model: torch.nn.Module, loss: Loss | None, optimizer: torch.optim.Optimizer, targets: int, clip: float | None, options: dict[str, Any]
    ) -> None:  # fmt: skip
        if not isinstance(model, torch.nn.Module):
            raise refuse(f"the model must be a torch.nn.Module, not {type(model).__name__}")
        if loss is not None and not callable(loss):
            raise refuse(f"the loss must be a function, not {type(loss).__name__}", "None takes the model's own")  # fmt: skip
        self.model, self.optimizer = model, optimizer
        self._module = LossModule(model, loss, targets)
        self._rule = optimizers.rule_of(optimizer)
        self._clip, self._precision, self._options = clip, options.pop("precision"), options
        self._modules = list(self._module.modules())
        self._programs: Programs[StepProgram] = Programs()
        self._variants: set[Any] = set()
        self._check_parameters()

    def __repr__(self) -> str:
        rule = type(self.optimizer).__name__
        return f"<TorchStep of {type(self.model).__name__} by {rule}, {len(self._programs)} programs>"  # fmt: skip

    def __call__(self, /, *args: Any, **named: Any) -> torch.Tensor:
        leaves, nest = pytree.tree_flatten((args, named))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        groups = self.optimizer.param_groups
        pairs, numbers = self._pairs(groups)
        options = tuple(optimizers.options_of(self._rule, group) for group in groups)
        self._bound_variants(options)
        key = (
            nest, tuple([_told(leaf) for leaf in leaves]), tuple([m.training for m in self._modules]), options, tuple(pairs),
            tuple([p.requires_grad for g in groups for p in g["params"]]),
        )  # fmt: skip
        made = self._programs.find(key) or self._programs.get(key, lambda: self._made(args, named, pairs))  # fmt: skip
        self._begin(made)
        return self._run(made, tensors, numbers)

    # ---- a call ------------------------------------------------------------------------------

    def _run(self, made: StepProgram, tensors: Sequence[torch.Tensor], numbers: list[float]) -> torch.Tensor:  # fmt: skip
        state = [self._tensor(kept) for kept in made.graph.state]
        made.state.bind(state)
        memory = {t.untyped_storage().data_ptr() for t in state}
        args = [t.clone() if t.untyped_storage().data_ptr() in memory else t for t in tensors]
        (loss,) = made.program([*args, torch.tensor(numbers, dtype=torch.float64)])
        made.state.written(state)
        torch.autograd.graph.increment_version(state)
        if self._rule.counts:
            counts = [self.optimizer.state[p.tensor][COUNT] for p in made.graph.learns]
            torch._foreach_add_(counts, 1)
        self.optimizer._opt_called = True  # schedules of the rate ask
        found: torch.Tensor = loss
        return found

    def _tensor(self, kept: Any) -> torch.Tensor:
        """Where a tensor of the state is now: `load_state_dict` of an optimizer makes new ones."""
        found: torch.Tensor = self.optimizer.state[kept.tensor][kept.slot] if kept.slot else kept.tensor  # fmt: skip
        return found

    def _begin(self, made: StepProgram) -> None:
        for learned in made.graph.learns:
            optimizers.begin(self._rule, learned.group, self.optimizer.state[learned.tensor], learned.tensor)  # fmt: skip

    def _pairs(self, groups: Sequence[dict[str, Any]]) -> tuple[list[int], list[float]]:
        """For each parameter which pair of a rate and a number of steps is its own, and the pairs."""
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

    def _bound_variants(self, options: Any) -> None:
        self._variants.add(options)
        if len(self._variants) > VARIANTS:
            self._variants.discard(options)
            problem = "options of the optimizer change from step to step, and each needs a program of its own"  # fmt: skip
            raise refuse(problem, "the rate may change freely; OneCycleLR and CyclicLR take cycle_momentum=False")  # fmt: skip

    # ---- a program ---------------------------------------------------------------------------

    def _made(self, args: tuple[Any, ...], named: dict[str, Any], pairs: Sequence[int]) -> StepProgram:  # fmt: skip
        limits = {k: self._options[k] for k in ("max_compile_seconds", "max_compile_memory")}
        with within(*limits.values()):
            checkpoint("reading the model")
            for leaf in pytree.tree_leaves((args, named)):
                if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                    raise refuse("an input requires a gradient, and a step has those of parameters only", "x.detach()")  # fmt: skip
            exported = loss_program(self._module, args, named)
            changed = [n for n in exported.buffers if n in exported.inputs]
            if changed:
                raise refuse(f"the model changes its input '{changed[0]}' in place", "let it change a copy: x.clone()")  # fmt: skip
            owned = {
                **dict(self._module.named_parameters(remove_duplicate=False)),
                **dict(self._module.named_buffers(remove_duplicate=False)),
            }
            graph = StepBuilder(exported, owned, self._learned(pairs), self._clip).graph()
            return self._compiled(exported, graph)

    def _learned(self, pairs: Sequence[int]) -> list[LearnedParameter]:
        found: list[LearnedParameter] = []
        pair = iter(pairs)
        for n, group in enumerate(self.optimizer.param_groups):
            made = optimizers.group_optimizer(self._rule, group, n)
            for p in group["params"]:
                at = next(pair)
                if p.requires_grad:
                    found.append(LearnedParameter(p, made, at))
        return found

    def _compiled(self, exported: Exported, graph: StepGraph) -> StepProgram:
        model: Model = replace(graph.model, precision=self._precision)
        compiled = compile(model, **self._options)
        assert isinstance(compiled, Compiled)
        names = [*exported.inputs, RATES]
        used = {param(n).name for n in model.inputs}
        inputs = [TorchInput(at, name, None, False) for at, name in enumerate(names) if name in used]  # fmt: skip
        loss = model.graph.outputs[LOSS]
        results = [Output(LOSS, loss.type.dtype, (), None)]
        program = TensorProgram(model, compiled, inputs, results, "seed" if exported.seeded else "")
        return StepProgram(graph, program, BoundState(compiled, graph.state), exported)

    def _check_parameters(self) -> None:
        """Raises SourceError for parameters of the optimizer that the model has not, or that are not
        in the processor's memory.
        """
        own = {id(p) for p in self._module.parameters()}
        for n, group in enumerate(self.optimizer.param_groups):
            for at, p in enumerate(group["params"]):
                if id(p) not in own:
                    problem = f"parameter {at} of group {n} of the optimizer, {list(p.shape)}, is none of the model's"  # fmt: skip
                    raise refuse(problem, "make the optimizer of model.parameters(), after the model is where it stays")  # fmt: skip
                if p.device.type != "cpu" or p.layout is not torch.strided:
                    raise refuse(f"parameter {at} of group {n} of the optimizer is on {p.device}, and a step takes those of the CPU", "model.cpu()")  # fmt: skip
            optimizers.group_optimizer(self._rule, group, n)


def _told(leaf: Any) -> Any:
    """What of an argument a program is made for."""
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
    target: str = "cpu",
    threads: int | None = None,
    precision: str = "default",
    checked: Asked = None,
    max_compile_seconds: float | None = None,
    max_compile_memory: int | None = None,
) -> TorchStep:
    """A whole training step of a module: `step(*inputs, target)` computes `loss(model(*inputs),
    target)`, its gradients and the optimizer's update, and gives the loss.

    The last `targets` arguments by place are the loss's. Without a loss (None) the model gives it:
    a scalar, or something that has it as `.loss`. `clip_norm` bounds the length of all gradients
    together. Other options are those of `xlac.compile`. Raises SourceError and UnsupportedError, at
    once for the optimizer and at a call for the model.
    """
    chosen("precision", precision, PRECISIONS)
    if targets < 0 or (clip_norm is not None and not 0 < clip_norm < float("inf")):
        raise refuse("clip_norm is a positive number, and targets a number of arguments")
    options = {
        "target": target, "threads": threads or torch.get_num_threads(), "precision": precision, "checked": checked,
        "max_compile_seconds": max_compile_seconds, "max_compile_memory": max_compile_memory,
    }  # fmt: skip
    return TorchStep(model, loss, optimizer, targets, clip_norm, options)
