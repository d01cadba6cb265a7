"""`xlac.torch_trainer`: a PyTorch module with its loss and optimizer, for `xlac.train` and
`xlac train --from-torch`. Its steps are those of `xlac.torch_step`, over PyTorch's own tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xlac.frontends.torch.fx_nodes import dtype_of
from xlac.frontends.torch.tensors import array_of, tensor_of
from xlac.integrations.torch.learning_export import Loss
from xlac.integrations.torch.optimizers import refuse
from xlac.integrations.torch.step import torch_step
from xlac.ir.dims import symbol
from xlac.ir.types import Type
from xlac.spec.weights.safetensors import TensorSource, write_tensors
from xlac.support.digest import digest
from xlac.training.averages import no_averages
from xlac.training.data.column import IndexRange
from xlac.training.loop.loader_state import LoaderState
from xlac.training.loop.saved import SavedState
from xlac.training.loop.steps import AveragedSteps, Sums
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.counts import number_of

BATCH, REST = "batch", "rest"
MOST_ROWS = 2**31 - 1


class TorchTrainer(SavedState):
    """Implements `TrainingSteps` for a PyTorch module. Losses and metrics are means over the rows
    of a batch. Evaluations, which alone have metrics, run in PyTorch under `model.eval()`.
    """

    batch, losses, averages = BATCH, ("loss",), False
    step_metrics: tuple[str, ...] = ()
    ranges: Mapping[str, IndexRange] = {}
    needs_length, ranks = False, None
    parts: Mapping[str, Callable[[Path], None]] = {}

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        inputs: Mapping[str, torch.Tensor],
        targets: int,
        metrics: Mapping[str, Loss],
        schedule: Any,
        options: dict[str, Any],
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self._schedule, self._targets = schedule, targets
        self._means: dict[str, Loss] = {"loss": loss, **metrics}
        self._step = torch_step(model, loss, optimizer, targets=targets, **options)
        self.accumulate = self._step.accumulate
        self._types = _input_types(inputs)
        self.metrics = tuple(self._means)
        self.steps_done = 0
        kept = [f"{name} {list(t.shape)} {t.dtype}" for name, t in self._tensors().items()]
        chosen = [
            {k: v for k, v in g.items() if k not in ("params", "lr", "initial_lr")}
            for g in optimizer.param_groups
        ]
        self.fingerprint = digest(
            repr(model),
            type(optimizer).__name__,
            repr(chosen),
            *kept,
            repr(sorted(options.items())),
        )[:32]

    @property
    def inputs(self) -> Mapping[str, Type]:
        """The types of a step's inputs by name, those of the loss last."""
        return self._types

    @property
    def ema(self) -> AveragedSteps:
        """Raises SourceError: no averages are kept."""
        raise no_averages()

    @property
    def carries(self) -> tuple[str, ...]:
        """None: a module's own buffers stay as its calls leave them."""
        return ()

    def begin_sequence(self, kind: str) -> None:
        """Nothing is carried."""

    def run_step(self, arrays: Mapping[str, Any]) -> Sums:
        """Updates the parameters from a batch; returns its loss as sum and count. With `accumulate`
        the batch is divided into as many micro-batches, the last one possibly smaller, whose
        gradients weigh by their rows.
        """
        given = self._tensors_of(arrays)
        rows, total = len(given[0]), 0.0
        each = max(1, -(-rows // self.accumulate))
        self._step.discard()  # those of a step that was stopped
        for start in range(0, max(rows, 1), each):
            part = tuple(tensor[start : start + each] for tensor in given)
            count = len(part[0])
            last = start + each >= rows
            value = self._step.part(part, {}, count / rows if rows else 1.0, last)
            total += float(value) * count
        if self._schedule is not None:
            self._schedule.step()
        self.steps_done += 1
        return {"loss": (total, float(rows))}

    def run_evaluate(self, arrays: Mapping[str, Any]) -> Sums:
        """The loss and metrics of a batch in inference mode, as sums and counts."""
        given = self._tensors_of(arrays)
        ends = len(given) - self._targets
        with _inference(self.model), torch.no_grad():
            results = self.model(*given[:ends])
            means = {
                name: float(mean(results, *given[ends:])) for name, mean in self._means.items()
            }
        return {
            name: (value * len(given[0]), float(len(given[0]))) for name, value in means.items()
        }

    def _tensors_of(self, arrays: Mapping[str, Any]) -> list[torch.Tensor]:
        return [tensor_of(np.asarray(arrays[name], order="C")) for name in self._types]

    # ---- state -------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Copies of the module's and the optimizer's tensors by name, and as bytes (`rest`) all
        else that a run needs to resume: hyperparameters, the schedule, PyTorch's random state.
        Raises SourceError where these contain tensors.
        """
        arrays = {name: np.array(array_of(t.detach())) for name, t in self._tensors().items()}
        own = self.optimizer.state_dict()
        held = {
            f"optimizer.{n}.{slot}": value
            for n, kept in own["state"].items()
            for slot, value in kept.items()
        }
        tensors = {k: v for k, v in held.items() if isinstance(v, torch.Tensor)}
        rest = {
            "groups": own["param_groups"],
            "plain": {k: v for k, v in held.items() if k not in tensors},
            "schedule": self._schedule.state_dict() if self._schedule is not None else None,
            "random": torch.get_rng_state().numpy().tobytes(),
            "steps": self.steps_done,
        }
        encoded = LoaderState.of(rest)
        if encoded.arrays:
            raise refuse(
                "options of the optimizer or the schedule are tensors, which a checkpoint cannot "
                "store",
                "use Python numbers",
            )
        arrays |= {name: np.array(array_of(t)) for name, t in tensors.items()}
        return {**arrays, REST: np.frombuffer(encoded.text.encode(), np.uint8)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Sets such a state, in place. Raises SourceError for the state of another model."""
        try:
            rest = LoaderState(np.asarray(state[REST]).tobytes().decode()).value()
            plain, groups, bits = dict(rest["plain"]), rest["groups"], rest["random"]
            steps, schedule = int(rest["steps"]), rest["schedule"]
        except (KeyError, ValueError, TypeError) as error:
            raise _other_model(f"it lacks the position of a run: {error}") from None
        own = self._tensors()
        for name, kept in own.items():
            if name not in state or (state[name].shape, state[name].dtype) != (
                tuple(kept.shape),
                dtype_of(kept).numpy,
            ):
                raise _other_model(f"'{name}' is {list(kept.shape)} here")
        held: dict[int, dict[str, Any]] = {}
        for name, value in {
            **{n: tensor_of(np.array(a)) for n, a in state.items()},
            **plain,
        }.items():
            if name.startswith("optimizer."):
                number, _, slot = name.removeprefix("optimizer.").partition(".")
                held.setdefault(int(number), {})[slot] = value
        try:
            self.optimizer.load_state_dict({"state": held, "param_groups": groups})
            if self._schedule is not None and schedule is not None:
                self._schedule.load_state_dict(schedule)
            torch.set_rng_state(torch.from_numpy(np.frombuffer(bits, np.uint8).copy()))
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise _other_model(str(error)) from None
        with torch.no_grad():
            for name, kept in own.items():
                kept.copy_(tensor_of(np.array(state[name])))
        self.steps_done = steps

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {
            f"model.{name}": t
            for name, t in self.model.state_dict(keep_vars=True).items()
            if isinstance(t, torch.Tensor)
        }

    def set_length(self, steps: int) -> None:
        """Does nothing: PyTorch's schedules know their length."""

    def save_weights(self, path: Path) -> None:
        """Writes the module's `state_dict` as safetensors. Raises OSError."""
        sources = {}
        for name, tensor in self._tensors().items():
            array = np.array(array_of(tensor.detach()))
            kind = Type(DType.of(array.dtype), array.shape)
            sources[name.removeprefix("model.")] = TensorSource(kind, partial(np.asarray, array))
        write_tensors(path, sources)


@contextmanager
def _inference(model: torch.nn.Module) -> Iterator[None]:
    before = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _input_types(inputs: Mapping[str, torch.Tensor]) -> dict[str, Type]:
    """The types of the inputs from examples, with the open size BATCH as their first axis. Raises
    SourceError for an example that is not a tensor with a first axis.
    """
    types: dict[str, Type] = {}
    for name, example in inputs.items():
        if not isinstance(name, str) or not isinstance(example, torch.Tensor) or not example.dim():
            raise refuse(
                "inputs has examples by name, tensors whose first axis counts the rows, "
                f"and {name!r} is none",
                '{"image": torch.zeros(32, 64)}',
            )
        rows = symbol(BATCH, 1, MOST_ROWS, max(1, len(next(iter(inputs.values())))))
        types[name] = Type(dtype_of(example), (rows, *example.shape[1:]))
    if not types:
        raise refuse("inputs names no input", '{"image": torch.zeros(32, 64)}')
    return types


def _other_model(what: str) -> SourceError:
    return SourceError(Diagnostic("XL3020", f"this is the state of another model: {what}"))


def torch_trainer(
    model: torch.nn.Module,
    loss: Loss,
    optimizer: torch.optim.Optimizer,
    inputs: Mapping[str, torch.Tensor],
    *,
    targets: int = 1,
    metrics: Mapping[str, Loss] | None = None,
    schedule: Any = None,
    **options: Any,
) -> TorchTrainer:
    """A PyTorch module for `xlac.train`. `inputs` are example tensors by name, those of the model
    and then the loss's `targets`, whose first axis is the batch. `metrics` are means over rows,
    called like the loss; `schedule.step()` is called after each step. `options` are those of
    `xlac.torch_step`. Raises SourceError.
    """
    if not callable(loss):
        raise refuse(f"the loss must be a function, not {type(loss).__name__}")
    wrong = [
        name
        for name, one in (metrics or {}).items()
        if not callable(one) or name in ("loss", "epoch", "step", "seconds")
    ]
    if wrong:
        raise refuse(
            f"{wrong[0]!r} is not a metric",
            "metrics={'accuracy': lambda made, label: …}, of other names than loss, "
            "epoch, step and seconds",
        )
    if not 0 < targets < len(inputs):
        raise refuse(
            f"targets is {targets}, and there are {number_of(len(inputs), 'input')}",
            "one at least is the model's, and one the loss's",
        )
    return TorchTrainer(
        model, loss, optimizer, inputs, targets, dict(metrics or {}), schedule, options
    )
