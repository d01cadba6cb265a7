"""Reads checkpoints of PyTorch, to go on training from them: weights and optimizer state.

A file is a dictionary of state dicts written by torch.save, or safetensors with the same keys
joined by dots: weights such as `model.h1.weight`, optimizer state such as
`optimizer.state.KEY.exp_avg`. KEY is the weight's name, or its index among the parameters that the
optimizer was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.spec.training.objective import Objective
from xlac.spec.weights.open_files import opened
from xlac.spec.weights.state_dict import StateDict
from xlac.spec.weights.tensor_files import BadFile, TensorFile
from xlac.training.state import STEP, state_prefix
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.counts import number_of

ADAM = {"m": "exp_avg", "v": "exp_avg_sq"}
SLOTS = {
    "sgd": {"velocity": "momentum_buffer"}, "momentum": {"velocity": "momentum_buffer"},
    "adam": {**ADAM, "largest": "max_exp_avg_sq"}, "adamw": {**ADAM, "largest": "max_exp_avg_sq"},
    "radam": ADAM, "adamax": {"m": "exp_avg", "u": "exp_inf"},
    "adadelta": {"v": "square_avg", "moved": "acc_delta"},
    "rmsprop": {"v": "square_avg", "mean": "grad_avg", "velocity": "momentum_buffer"},
    "adagrad": {"total": "sum"},
}  # fmt: skip
"""By optimizer: PyTorch's name of each of its state tensors."""
_NAMES = sorted({"step", *(name for slots in SLOTS.values() for name in slots.values())})
KEPT = re.compile(rf"(?:(.+)\.)?state\.(.+)\.({'|'.join(_NAMES)})")
COMPARED = tuple(
    (
        "betas eps weight_decay momentum dampening nesterov alpha centered lr_decay amsgrad rho"
    ).split()
)


@dataclass(frozen=True, slots=True)
class TorchCheckpoint:
    """A file: its tensors; the names of optimizer state, by the optimizer's key in the file, the
    weight's KEY and the state's name; the parameter groups of each optimizer (not in safetensors).
    """

    path: Path
    file: TensorFile
    kept: Mapping[str, Mapping[str, Mapping[str, str]]]
    groups: Mapping[str, Sequence[Mapping[str, Any]]]

    @staticmethod
    def read(path: Path) -> TorchCheckpoint:
        """Opens a file without running code in it. Raises SourceError, and OSError."""
        try:
            file = opened(path)
        except BadFile as error:
            raise SourceError(Diagnostic("XL3004", f"{path}: {error}")) from None
        kept: dict[str, dict[str, dict[str, str]]] = {}
        for name in file.tensors:
            if match := KEPT.fullmatch(name):
                own = kept.setdefault(match[1] or "", {}).setdefault(match[2], {})
                own[match[3]] = name
        groups: dict[str, Sequence[Mapping[str, Any]]] = {}
        if isinstance(file, StateDict):
            for key, one in {**file.tree, "": file.tree}.items():
                listed = one.get("param_groups") if isinstance(one, dict) else None
                if isinstance(listed, list) and all(isinstance(g, dict) for g in listed):
                    groups[str(key)] = listed
                    kept.setdefault(str(key), {})
        return TorchCheckpoint(path, file, kept, groups)

    def fault(self, problem: str, hint: str = "") -> SourceError:
        """The error for a checkpoint that does not fit the model or the optimizer."""
        return SourceError(Diagnostic("XL6052", f"{self.path}: {problem}", hint=hint))

    def weights(self, wanted: Sequence[str]) -> dict[str, str]:
        """The names in the file by names of weights of the model, in the order of the file; all
        under one top-level key, or none. Empty for a file of optimizer state only. Raises
        SourceError where some are missing.
        """
        own = [n for n in self.file.tensors if not KEPT.fullmatch(n)]
        heads = dict.fromkeys(["", *(f"{n.partition('.')[0]}." for n in own if "." in n)])
        best = max(heads, key=lambda head: sum(f"{head}{n}" in self.file.tensors for n in wanted))
        places = {n.removeprefix(best): n for n in own if n.startswith(best)}
        missing = [name for name in wanted if name not in places]
        if own and missing:
            raise self.fault(
                f"{', '.join(missing[:5])} {'is' if len(missing) == 1 else 'are'} missing",
                "the names are those of the model's weights, under one key at most",
            )
        return {name: place for name, place in places.items() if name in wanted}

    def compare_frozen(self, frozen: Mapping[str, Array]) -> None:
        """Raises SourceError for a frozen weight with other values in the file."""
        for name, array in frozen.items():
            places = [n for n in self.file.tensors if n == name or n.partition(".")[2] == name]
            for place in places:
                if not KEPT.fullmatch(place) and not np.array_equal(self.file[place], array):
                    hint = "weights: in the spec names the file that it is read from"
                    raise self.fault(
                        f"{name} does not learn here, and is another in the file", hint
                    )

    def optimizer(self, key: str | None) -> str:
        """The key of the optimizer in the file. Raises SourceError for an unknown one, and where
        there are several and `key` is None.
        """
        if key is not None and key not in self.kept:
            raise self.fault(
                f"there is no optimizer {key!r}", f"there are {', '.join(map(repr, self.kept))}"
            )
        if key is None and len(self.kept) != 1:
            known = ", ".join(map(repr, self.kept)) or "none"
            raise self.fault(
                f"it is not given which optimizer is meant: {known}",
                "optimizer=KEY, or {LOSS: KEY} of several losses",
            )
        return next(iter(self.kept)) if key is None else key

    def keys(
        self, optimizer: str, order: Sequence[str], names: Sequence[str] | None
    ) -> dict[str, str]:
        """The KEY of each weight: its name, where the file has names; else its index in `names`, by
        default that in the file's `param_names`, or in `order`. Raises SourceError where the number
        of names differs from the file's.
        """
        kept, groups = self.kept[optimizer], self.groups.get(optimizer, ())
        said = [str(n) for group in groups for n in group.get("param_names") or ()]
        numbered = [str(n) for group in groups for n in group.get("params") or ()]
        numbered = numbered or sorted(kept, key=lambda n: int(n) if n.isdigit() else 0)
        if not all(n.isdigit() for n in numbered):
            return {n: n for n in numbered}
        given = list(names) if names is not None else said
        if not given and len(groups) > 1:
            raise self.fault(
                f"its parameters have no names, and are in {number_of(len(groups), 'group')}",
                "names=[…] gives them in order; PyTorch keeps names that an "
                "optimizer is given: Adam(model.named_parameters())",
            )
        given = given or list(order)
        if len(given) != len(numbered):
            raise self.fault(
                f"its optimizer has {number_of(len(numbered), 'parameter')}, "
                f"and there are names of {len(given)}",
                "names=[…] gives them in the order in which the optimizer was given them",
            )
        return dict(zip(given, numbered, strict=True))

    def array(self, name: str, type: Type, of: str) -> Array:
        """A tensor of the file. Raises SourceError where dtype or shape differ from `type`; `of`
        names the weight in the message.
        """
        try:
            array = np.array(self.file[name])
        except BadFile as error:
            raise SourceError(Diagnostic("XL3004", f"{self.path}: {error}")) from None
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            raise self.fault(f"{name} is {array.dtype}{list(array.shape)}, and {of} is {type}")
        return array


def objective_state(
    file: TorchCheckpoint,
    objective: Objective,
    types: Mapping[str, Type],
    keys: Mapping[str, str],
    optimizer: str,
    changed: bool,
) -> tuple[dict[str, Array], set[int]]:
    """The optimizer state for one loss, by names of state tensors, and the step counts in the file.
    `changed` permits other hyperparameters. Raises SourceError.
    """
    kept, tensors, steps = file.kept[optimizer], dict[str, Array](), set[int]()
    for name, one in objective.learns.items():
        known = SLOTS.get(one.name)
        if known is None:
            raise file.fault(
                f"{name} learns by {one.name}, of which PyTorch's states are not read",
                f"known: {', '.join(SLOTS)}",
            )
        if name not in keys:
            raise file.fault(f"its optimizer has no parameter {name}")
        if not changed:
            _compare(file, optimizer, keys[name], name, one.params)
        own = kept.get(keys[name], {})
        if kept and not own and one.slots(types[name]):
            raise file.fault(f"its optimizer has no state for {name}, but for others")
        for slot in one.slots(types[name]) if kept else ():
            if known[slot] not in own:
                raise file.fault(
                    f"its optimizer keeps no {known[slot]} for {name}: "
                    f"it is not {one.name}, or has other options"
                )
            tensors[f"{state_prefix(objective)}{slot}.{name}"] = file.array(
                own[known[slot]], types[name], name
            )
        if "step" in own:
            steps.add(int(np.asarray(file.file[own["step"]]).reshape(-1)[0]))
    return tensors, steps


def _compare(
    file: TorchCheckpoint, optimizer: str, key: str, name: str, params: Mapping[str, Any]
) -> None:
    """Raises SourceError where PyTorch's optimizer had other hyperparameters."""
    for group in file.groups.get(optimizer, ()):
        if key not in map(str, group.get("params") or ()):
            continue
        if group.get("maximize"):
            raise file.fault("its optimizer maximizes, and ours minimise")
        for option in COMPARED:
            before, now = group.get(option), params.get(option)
            before = list(before) if isinstance(before, tuple) else before
            if before is not None and now is not None and before != now:
                hint = "say the same in the spec; changed=True continues with those of the spec"
                raise file.fault(f"{option} of {name} was {before}, and the spec says {now}", hint)


def torch_state(
    file: TorchCheckpoint,
    objectives: Sequence[Objective],
    weights: Mapping[str, Type],
    optimizers: Mapping[str, str] | str | None,
    names: Mapping[str, Sequence[str]] | Sequence[str] | None,
    steps: int | None,
    changed: bool,
) -> dict[str, Array]:
    """The part of the training state that the file gives, by name: weights that learn, optimizer
    state and the number of steps. The other arguments are those of `Trainer.load_torch`. Raises
    SourceError.
    """
    places = file.weights(list(weights))
    arrays = {name: file.array(place, weights[name], name) for name, place in places.items()}
    step_counts: set[int] = set()
    for one in objectives:
        key = optimizers.get(one.name) if isinstance(optimizers, Mapping) else optimizers
        key = file.optimizer(key)
        own = names.get(one.name) if isinstance(names, Mapping) else names
        ordered = places if places and isinstance(file.file, StateDict) else weights
        order = [name for name in ordered if name in one.learns]
        state, counted = objective_state(
            file, one, weights, file.keys(key, order, own), key, changed
        )
        arrays |= state
        step_counts |= counted
    if len(step_counts) > 1:
        raise file.fault(
            f"its weights took different numbers of steps: {min(step_counts)} to {max(step_counts)}"
        )
    rates = [one.rate for objective in objectives for one in objective.learns.values()]
    fixed = all(r.entry is not None and next(iter(r.params)) == "value" for r in rates)
    begun = any(file.kept.values())
    if steps is None and not step_counts and begun and not fixed:
        hint = "steps=N, as many as PyTorch's optimizer took"
        raise file.fault(
            "how many steps were taken is not in it, and the learning rate depends on it", hint
        )
    count = steps if steps is not None else next(iter(step_counts), int(begun))
    return {**arrays, STEP: np.asarray(count, np.int64)}
