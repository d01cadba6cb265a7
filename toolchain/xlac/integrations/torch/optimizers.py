"""Maps PyTorch's optimizers to xlac's built-in ones, with their hyperparameters and the names of
their state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer as TorchOptimizer
from torch.optim.optimizer import _get_scalar_dtype

from xlac.ir.types import Type
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.handlers import HANDLERS
from xlac.spec.elaborate.scope import Frame
from xlac.spec.report import Report
from xlac.spec.training.optimizer import Optimizer, optimizer
from xlac.spec.training.rates import built_in
from xlac.spec.weights.stored import Stored
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

COUNT = "step"  # PyTorch's name of a parameter's number of steps, a tensor
Group = Mapping[str, Any]


@dataclass(frozen=True)
class OptimizerRule:
    """How a class of PyTorch is mapped: `name` gives the built-in optimizer of a parameter group,
    `options` are hyperparameters of the same name in both, `slots` PyTorch's names of its state.
    """

    name: Callable[[Group], str]
    options: tuple[str, ...]
    slots: Mapping[str, str]
    counts: bool = True  # PyTorch counts steps; else only the first step differs from others
    refused: Mapping[str, str] = field(default_factory=dict)  # option -> why
    scalars: tuple[str, ...] = ()  # what it keeps as numbers of PyTorch's default type


_DECAY = {"decoupled_weight_decay": "only Adam and AdamW decouple it"}
RULES: dict[type[TorchOptimizer], OptimizerRule] = {
    torch.optim.SGD: OptimizerRule(
        lambda group: "sgd",
        ("momentum", "dampening", "weight_decay", "nesterov"),
        {"velocity": "momentum_buffer"},
        False,
    ),
    **dict.fromkeys(
        (torch.optim.Adam, torch.optim.AdamW),
        OptimizerRule(
            lambda group: "adamw" if group["decoupled_weight_decay"] else "adam",
            ("betas", "eps", "weight_decay", "amsgrad"),
            {"m": "exp_avg", "v": "exp_avg_sq", "largest": "max_exp_avg_sq"},
        ),
    ),
    torch.optim.Adamax: OptimizerRule(
        lambda group: "adamax", ("betas", "eps", "weight_decay"), {"m": "exp_avg", "u": "exp_inf"}
    ),
    torch.optim.RAdam: OptimizerRule(
        lambda group: "radam",
        ("betas", "eps", "weight_decay"),
        {"m": "exp_avg", "v": "exp_avg_sq"},
        refused=_DECAY,
    ),
    torch.optim.Adadelta: OptimizerRule(
        lambda group: "adadelta",
        ("rho", "eps", "weight_decay"),
        {"v": "square_avg", "moved": "acc_delta"},
    ),
    torch.optim.RMSprop: OptimizerRule(
        lambda group: "rmsprop",
        ("alpha", "eps", "weight_decay", "momentum", "centered"),
        {"v": "square_avg", "mean": "grad_avg", "velocity": "momentum_buffer"},
    ),
    torch.optim.Adagrad: OptimizerRule(
        lambda group: "adagrad", ("lr_decay", "eps", "weight_decay"), {"total": "sum"}
    ),
    torch.optim.NAdam: OptimizerRule(
        lambda group: "nadam",
        ("betas", "eps", "weight_decay", "momentum_decay", "decoupled_weight_decay"),
        {"m": "exp_avg", "v": "exp_avg_sq", "product": "mu_product"},
        scalars=("product",),
    ),
    torch.optim.Adafactor: OptimizerRule(
        lambda group: "adafactor",
        ("beta2_decay", "eps", "d", "weight_decay"),
        {"row": "row_var", "column": "col_var", "v": "variance"},
    ),
    torch.optim.Muon: OptimizerRule(
        lambda group: "muon",
        (
            *("weight_decay", "momentum", "nesterov", "eps"),
            *("ns_coefficients", "ns_steps", "adjust_lr_fn"),
        ),
        {"velocity": "momentum_buffer"},
        False,
    ),
}


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """What is kept for a parameter: our name and PyTorch's, and how it begins."""

    slot: str
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    first: float

    def alike(self, p: torch.Tensor) -> torch.Tensor | None:
        """A tensor of its type, where that is another than the parameter's."""
        if (self.shape, self.dtype) == (tuple(p.shape), p.dtype):
            return None
        return self.initial(p)

    def initial(self, p: torch.Tensor) -> torch.Tensor:
        """Its first value; one of the parameter's shape lies in memory as that does."""
        if self.shape == p.shape:
            tensor = torch.zeros_like(p, dtype=self.dtype, memory_format=torch.preserve_format)
            return tensor.fill_(self.first) if self.first else tensor
        return torch.full(self.shape, self.first, dtype=self.dtype, device=p.device)


@dataclass(frozen=True, eq=False)
class GroupOptimizer:
    """A parameter group's optimizer, whether it maximizes, and what it keeps of each parameter."""

    optimizer: Optimizer
    maximize: bool
    rule: OptimizerRule

    def kept(self, p: torch.Tensor) -> list[KeptTensor]:
        """What is kept for a parameter."""
        tensors: list[KeptTensor] = []
        shape = tuple(int(n) for n in p.shape)
        for slot, (type, first) in self.optimizer.slots(Type(DType.F32, shape)).items():
            dtype = _get_scalar_dtype() if slot in self.rule.scalars else p.dtype
            sizes = tuple(int(n) for n in type.shape)  # type: ignore[arg-type]
            tensors.append(KeptTensor(slot, self.rule.slots[slot], sizes, dtype, first))
        return tensors


def refuse(problem: str, hint: str = "") -> SourceError:
    """The error for a model, loss or optimizer that a step does not support."""
    return SourceError(Diagnostic("XL7311", problem, hint=hint))


def rule_of(given: Any) -> OptimizerRule:
    """The rule for an optimizer of PyTorch. Raises SourceError for one without a counterpart."""
    if not isinstance(given, TorchOptimizer):
        raise refuse(f"the optimizer must be one of torch.optim, not {type(given).__name__}")
    rule = RULES.get(type(given))
    if rule is None:
        known = ", ".join(sorted(c.__name__ for c in RULES))
        problem = f"xlac.torch_step has no counterpart of the optimizer {type(given).__name__}"
        raise refuse(
            problem, f"it has those of {known}; torch.compile(…, backend='xlac') takes any"
        )
    return rule


def options_of(rule: OptimizerRule, group: Group) -> tuple[Any, ...]:
    """A group's hyperparameters except the learning rate, as a key: a program is made for each."""
    chosen = [rule.name(group), bool(group.get("maximize")), bool(group.get("differentiable"))]
    chosen += [bool(group.get(name)) for name in rule.refused]
    return (*chosen, *(_plain(group[name]) for name in rule.options))


def group_optimizer(rule: OptimizerRule, group: Group, number: int) -> GroupOptimizer:
    """The built-in optimizer for parameter group `number`. Raises SourceError for an option that it
    does not have.
    """
    for name, why in {**rule.refused, "differentiable": "a step is not differentiated"}.items():
        if group.get(name):
            raise refuse(f"parameter group {number}: {name}=True is not supported: {why}")
    name = rule.name(group)
    merged = built_in()
    given = {key: _plain(group[key]) for key in rule.options}
    given = {k: _listed(v) for k, v in given.items() if v is not None}
    built = optimizer(
        merged, name, {"lr": 1.0, **given}, Constants({}, {}), merged.optimizers[name].place
    )
    return GroupOptimizer(built, bool(group.get("maximize")), rule)


def elaboration() -> Elaboration:
    """A context in which expressions of the built-in optimizers are elaborated."""
    return Elaboration(
        Report(), {}, built_in().ops, Frame(), Stored(None, Report(), Path(), False), HANDLERS
    )


def ensure_state(
    rule: OptimizerRule, group: GroupOptimizer, kept: dict[str, Any], p: torch.Tensor
) -> None:
    """Creates PyTorch's optimizer state for a parameter where it is missing, as PyTorch does at the
    first step: zeros, and a count of 0.
    """
    if rule.counts and COUNT not in kept:
        kept[COUNT] = torch.tensor(0.0, dtype=_get_scalar_dtype())
    for one in group.kept(p):
        if kept.get(one.name) is None:
            kept[one.name] = one.initial(p)


def steps_taken(rule: OptimizerRule, kept: Mapping[str, Any], slots: Sequence[str]) -> float:
    """The steps done for a parameter; 0 or 1 (any) where the optimizer does not count them."""
    if rule.counts:
        return float(kept[COUNT]) if COUNT in kept else 0.0
    return float(all(kept.get(name) is not None for name in slots))


def _listed(value: Any) -> Any:
    """A list of a tuple; a number that PyTorch takes from the type, None, is 0."""
    return [0.0 if v is None else v for v in value] if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    """Tensors of one number as Python floats, in tuples too."""
    if isinstance(value, tuple | list):
        return tuple(_plain(v) for v in value)
    if isinstance(value, torch.Tensor):
        return float(value)
    return value
