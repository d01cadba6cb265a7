"""PyTorch's optimizers as xlac's: which of the built-in ones each is, with which parameters, and
where PyTorch keeps what it keeps.
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
from xlac.spec.training.optimizer import Optimizer, built_in, optimizer
from xlac.spec.weights.stored import Stored
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

COUNT = "step"  # of PyTorch's state: how many steps a parameter has taken, as a tensor
Group = Mapping[str, Any]


@dataclass(frozen=True)
class OptimizerRule:
    """One of PyTorch's classes: the built-in optimizer of a group, the options that are its
    parameters by the same names, and what it keeps by PyTorch's.
    """

    name: Callable[[Group], str]
    options: tuple[str, ...]
    slots: Mapping[str, str]
    counts: bool = True  # whether PyTorch counts the steps; else there is a first one and others
    refused: Mapping[str, str] = field(default_factory=dict)  # option -> why


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
}


@dataclass(frozen=True, eq=False)
class GroupOptimizer:
    """A group of parameters: its optimizer, whether it climbs instead, and what PyTorch calls what
    is kept.
    """

    optimizer: Optimizer
    maximize: bool
    slots: Mapping[str, str]


def refuse(problem: str, hint: str = "") -> SourceError:
    """An error about what a step cannot train."""
    return SourceError(Diagnostic("XL7311", problem, hint=hint))


def rule_of(given: Any) -> OptimizerRule:
    """How an optimizer of PyTorch's is said. Raises SourceError for one that is not."""
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
    """All that decides how a group's parameters change, but for the rate: it may be compared."""
    chosen = [rule.name(group), bool(group.get("maximize")), bool(group.get("differentiable"))]
    chosen += [bool(group.get(name)) for name in rule.refused]
    return (*chosen, *(_plain(group[name]) for name in rule.options))


def group_optimizer(rule: OptimizerRule, group: Group, number: int) -> GroupOptimizer:
    """The optimizer of a group. Raises SourceError for an option that it has not."""
    for name, why in {**rule.refused, "differentiable": "a step is not differentiated"}.items():
        if group.get(name):
            raise refuse(f"parameter group {number}: {name}=True is not supported: {why}")
    name = rule.name(group)
    merged = built_in()
    given = {key: _plain(group[key]) for key in rule.options}
    given = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
    made = optimizer(
        merged, name, {"lr": 1.0, **given}, Constants({}, {}), merged.optimizers[name].place
    )
    kept = {slot: rule.slots[slot] for slot in made.slots(Type(DType.F32))}  # the same for all
    return GroupOptimizer(made, bool(group.get("maximize")), kept)


def elaboration() -> Elaboration:
    """What expressions of the built-in optimizers are elaborated in."""
    return Elaboration(
        Report(), {}, built_in().ops, Frame(), Stored(None, Report(), Path(), False), HANDLERS
    )


def begin(
    rule: OptimizerRule, group: GroupOptimizer, kept: dict[str, Any], p: torch.Tensor
) -> None:
    """Makes what PyTorch keeps for a parameter where it is not there yet, as PyTorch does."""
    if rule.counts and COUNT not in kept:
        kept[COUNT] = torch.tensor(0.0, dtype=_get_scalar_dtype())
    for name in group.slots.values():
        if kept.get(name) is None:
            kept[name] = torch.zeros_like(p, memory_format=torch.preserve_format)


def steps_taken(rule: OptimizerRule, kept: Mapping[str, Any], slots: Sequence[str]) -> float:
    """How many steps a parameter has taken; of an optimizer that does not count, whether any."""
    if rule.counts:
        return float(kept[COUNT]) if COUNT in kept else 0.0
    return float(all(kept.get(name) is not None for name in slots))


def _plain(value: Any) -> Any:
    """A number of PyTorch's as Python's."""
    if isinstance(value, tuple | list):
        return tuple(_plain(v) for v in value)
    if isinstance(value, torch.Tensor):
        return float(value)
    return value
