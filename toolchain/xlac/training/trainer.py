"""`xlac.trainer`: trains a model step by step."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from xlac.api import compile
from xlac.ir.op import Array
from xlac.runtime.compiled import Compiled
from xlac.runtime.specialization import Specializing
from xlac.spec.load import load_training
from xlac.spec.training.ema import PREFIX
from xlac.training import weights
from xlac.training.averages import EVALUATE, RUN, Averages, no_averages, with_averages
from xlac.training.carried.sequences import Sequences
from xlac.training.data.index_ranges import in_range, index_ranges
from xlac.training.entries import checked_state, fingerprint, step_inputs
from xlac.training.factor_files import FactorFiles
from xlac.training.failures.replay import failure
from xlac.training.loop.saved import SavedState
from xlac.training.loop.steps import Totals, added, finite_only, is_finite, means
from xlac.training.micro_batches.parts import MicroBatches, calls, checked_number
from xlac.training.program import graphs_of
from xlac.training.ranks.division import RankTraining
from xlac.training.ranks.pipeline import programs_of
from xlac.training.settings import ENDLESS, NO_LENGTH, rate_of, settings
from xlac.training.state import LENGTH, SCALE, STEP
from xlac.training.step import FINITE, LOSS_SCALE
from xlac.training.torch_checkpoint import TorchCheckpoint, torch_state
from xlac_sdk.host.entry_calls import setting_number
from xlac_sdk.support.counts import number_of

LEAST_SCALE = 2.0**-14  # gradients that overflow with this loss scale would do so without one


class Trainer(SavedState, FactorFiles, Sequences):
    """A model with its optimizer, compiled for a target.

    `inputs` are the types of a step's inputs by name, the model's first, with the size `batch`
    open, and `ranges` the valid numbers of integer inputs (such as class labels). `metrics` are the
    names of the numbers that it reports, `losses`, those that are minimised, first. Weights and
    optimizer state are in the compiled programs; `state` and `weights` copy them. `tell` hears what
    a memory limit costs.
    With a `mesh` ("data=2" or sizes by axis) this process is one of its ranks, all of which make
    the same calls with whole batches and get the same results: docs/DISTRIBUTED.md.
    """

    def __init__(
        self,
        spec: str | os.PathLike[str],
        *,
        target: str = "cpu",
        threads: int | None = None,
        dims: Mapping[str, int | str] | None = None,
        params: Mapping[str, object] | None = None,
        accumulate: int | None = None,
        allow_outside: bool = False,
        tell: Callable[[str], object] | None = None,
        mesh: str | Mapping[str, int] | None = None,
        **options: Any,
    ) -> None:
        signature(compile).bind_partial(spec, target, **options)  # TypeError for unknown options
        model, training = load_training(
            Path(spec), dims=dims, params=params, allow_outside=allow_outside
        )
        if accumulate is not None:
            training = replace(training, accumulate=checked_number(accumulate))
        graphs = graphs_of(model, training, mesh)
        self._models = graphs.entries
        self._options = {"target": target, "threads": threads, **options}
        tensors = {tensor.name: tensor for tensor in graphs.state}
        among = None if mesh is None else RankTraining(mesh, tensors, training.shard)
        self._programs = programs_of(self._models, self._options, tell, among)
        self.ranks = self._programs.here  # the ranks of the mesh, if there is one
        self._tensors = {name: one for name, one in tensors.items() if not one.transient}
        self._metrics, self._carried = graphs.metrics, graphs.carried
        self._settings, self._needs_length = settings(graphs), LENGTH in self._tensors
        self._model, self._factors = model, training.factors
        self._objectives = training.objectives
        self.batch = training.batch if training.batch in model.dims else ""  # where that is fixed
        self._passes = tuple(graphs.accumulate)
        steps = [graphs.step, *graphs.accumulate.values()]
        self.inputs = step_inputs(graphs.run, training.graph, steps)
        self.metrics = tuple(metric.name for metric in graphs.metrics)
        self.step_metrics = (LOSS_SCALE,) if SCALE in self._tensors else ()
        self.losses = graphs.losses
        self.ranges = index_ranges(graphs.evaluate.graph)
        self.accumulate = training.accumulate
        self._micro_batches = MicroBatches(self.inputs, model.dims, training.batch, self.accumulate)
        whole = steps[: len(steps) - 1] or steps  # the last is as the step, but for its update
        if mesh is not None and training.statistics == "local":
            alone = graphs_of(model, training)  # one fingerprint for any number of ranks
            same = [alone.step, *alone.accumulate.values()]
            whole = same[: len(same) - 1] or same
        self.fingerprint = fingerprint(whole, self.accumulate)
        self._mid_step = False  # an exception ended the last step between its micro-batches
        self.reset()

    # ---- what a user calls -------------------------------------------------------------------

    def step(self, /, **arrays: Any) -> dict[str, float]:
        """Updates the weights from a batch (arrays by input). Returns its loss and metrics by name,
        of the weights before the update. Raises SourceError as `run_step` does, or `in_range`.
        """
        return means(self.run_step(in_range(arrays, self.ranges)))

    def evaluate(self, /, **arrays: Any) -> dict[str, float]:
        """The loss and metrics of a batch by name, in inference mode; the state does not change."""
        return means(self.run_evaluate(in_range(arrays, self.ranges)))

    def __call__(self, /, **arrays: Any) -> Any:
        """The model's outputs with the present weights: an array, or arrays by name if several."""
        return self._outputs("run", arrays)

    @property
    def averages(self) -> bool:
        """Whether averages of the weights are kept."""
        return RUN in self._programs.entries

    @property
    def ema(self) -> Averages:
        """The model with averaged weights. Raises SourceError where none are kept."""
        if not self.averages:
            raise no_averages()
        called = self._programs.called
        return Averages(
            lambda arrays: self._totals(*called(EVALUATE, in_range(arrays, self.ranges))),
            lambda: self._weights(True, PREFIX),
            lambda arrays: self._outputs(RUN, arrays),
            self._compiled,
        )

    def _outputs(self, kind: str, arrays: Mapping[str, Any]) -> Any:
        outputs, _ = self._programs.called(kind, arrays)
        return outputs if len(outputs) > 1 else next(iter(outputs.values()))

    def __repr__(self) -> str:
        kept = sum(tensor.type.size for tensor in self._tensors.values() if tensor.learns)
        tensors, done = len(self._tensors), self.steps_done
        return f"<Trainer of {kept:,} weights in {number_of(tensors, 'tensor')}, {done} steps done>"

    # ---- what a loop calls -------------------------------------------------------------------

    def run_step(self, arrays: Mapping[str, Any]) -> Totals:
        """`step`, with sums and counts in place of means. Raises SourceError where the loss is not
        finite, or gradients that are checked (`clip`, `finite`, loss scale) are not: nothing is
        learned then, and the error names the node at fault. With a dynamic loss scale, non-finite
        gradients reduce the scale, and are an error only below LEAST_SCALE. A batch without any
        label that counts gives sums of 0, and nothing is learned from it.
        """
        if self.needs_length:
            warnings.warn(NO_LENGTH, stacklevel=3)
            self.set_length(ENDLESS)
        if self._mid_step:
            self.restore(self.state())
        needed = calls(self._passes, self._micro_batches.parts(arrays))
        totals: Totals = {}
        self._mid_step = len(needed) > 1
        for outputs, sizes in self._programs.calls(needed):
            totals = added(totals, self._totals(outputs, sizes))
        self._mid_step = False
        totals = {name: totals[name] for name in self.metrics}
        scale = float(outputs[LOSS_SCALE]) if LOSS_SCALE in outputs else None
        if not outputs[FINITE]:
            smaller = scale is not None and float(self._programs.tensor(SCALE)) < scale
            if scale is None or not smaller or scale < LEAST_SCALE:
                finite = all(is_finite(totals[name]) for name in self.losses)
                given = (self._models, self._options, self.state(), arrays)
                raise failure(*given, needed, finite, self.steps_done)
            totals = finite_only(totals)
        return totals if scale is None else {**totals, LOSS_SCALE: (scale, 1.0)}

    def run_evaluate(self, arrays: Mapping[str, Any]) -> Totals:
        """`evaluate`, with sums and counts in place of means."""
        totals: Totals = {}
        needed = [("evaluate", part) for part in self._micro_batches.parts(arrays)]
        for outputs, sizes in self._programs.calls(needed):
            totals = added(totals, self._totals(outputs, sizes))
        return totals

    @property
    def needs_length(self) -> bool:
        """Whether the learning rate depends on the run's length, which is not set."""
        return self._needs_length and not self._length

    @property
    def steps_done(self) -> int:
        """The number of steps done."""
        return int(self._programs.tensor(STEP))

    def set_length(self, steps: int) -> None:
        """Sets the run's number of steps, for schedules that depend on it. Raises SourceError."""
        length = setting_number("length", steps)
        if self._needs_length:
            self._set("length", length)
            self._length = length

    def set_rate(self, rate: float, loss: str | None = None) -> None:
        """Sets the learning rate (the peak of a schedule); the rates of parameter groups change in
        proportion. With several losses, `loss` names one. Raises SourceError.
        """
        self._set(rate_of(self._settings, self.losses, loss, rate), rate)

    def _set(self, setting: str, number: float) -> None:
        """Writes the state tensors of a setting."""
        for name, value in self._settings[setting].values(number).items():
            self._programs.write(name, np.asarray(value, self._tensors[name].type.dtype.numpy))

    def state(self) -> dict[str, Array]:
        """A copy of the training state by name: weights, optimizer state, averages, counters."""
        return {name: self._programs.tensor(name) for name in self._tensors}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Sets a state that `state` returned. SourceError: other names, dtypes or shapes."""
        self._begin(checked_state(state, {n: tensor.type for n, tensor in self._tensors.items()}))

    def load_torch(
        self,
        path: str | os.PathLike[str],
        *,
        optimizer: Mapping[str, str] | str | None = None,
        names: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        steps: int | None = None,
        changed: bool = False,
    ) -> None:
        """Loads a checkpoint of PyTorch, to go on training from it: docs/TRAINING.md. `optimizer`
        is the key of the optimizer's state dict, `names` its parameters in order (both by loss,
        where there are several), `steps` the number of steps it has done; `changed` permits other
        hyperparameters. Raises SourceError, and changes nothing then.
        """
        learned = {name: tensor.type for name, tensor in self._tensors.items() if tensor.learns}
        file = TorchCheckpoint.read(Path(path))
        loaded = torch_state(file, self._objectives, learned, optimizer, names, steps, changed)
        file.compare_frozen({n: a for n, a in self.weights(False).items() if n not in learned})
        self.restore({**self.state(), **with_averages(loaded, self._tensors)})

    def reset(self) -> None:
        """Sets the initial state: initial weights, no steps done."""
        self._begin({name: tensor.initial() for name, tensor in self._tensors.items()})

    def _begin(self, state: dict[str, Array]) -> None:
        """Sets the whole state, arrays by name, which is not copied."""
        self._programs.begin(state)
        self._mid_step = False
        self._length = float(state[LENGTH]) if self._needs_length else 0.0

    def weights(self, merged: bool = True) -> dict[str, Array]:
        """A copy of the model's weights by name, LoRA factors merged into theirs or separate."""
        return self._weights(merged)

    def _weights(self, merged: bool, prefix: str = "") -> dict[str, Array]:
        """`weights`; those that learn are read from the state under names with a prefix."""
        frozen = {
            name: np.asarray(array)
            for entry in self._programs.entries.values()
            for name, array in entry.model.weights.items()
        }
        arrays = {**frozen, **self._learned(prefix)}
        return weights.merged(arrays, self._factors) if merged else arrays

    def _learned(self, prefix: str = "") -> dict[str, Array]:
        kept = self.state()
        return {
            name: kept[f"{prefix}{name}"].astype(tensor.type.dtype.numpy)
            for name, tensor in self._tensors.items()
            if tensor.learns
        }

    def save_weights(self, path: str | os.PathLike[str], merged: bool = True) -> None:
        """Writes `weights` as safetensors, under the names of the model's spec. Raises OSError."""
        weights.write_weights(Path(path), self.weights(merged))

    def model(self, **options: Any) -> Compiled | Specializing:
        """The model for inference with a copy of the present weights, compiled with the trainer's
        options; `options`, those of `xlac.compile`, override them.
        """
        return self._compiled(self.weights(), options)

    def _compiled(
        self, arrays: Mapping[str, Array], options: Mapping[str, Any]
    ) -> Compiled | Specializing:
        return compile(weights.model_of(self._model, arrays), **{**self._options, **options})

    def _totals(self, outputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Totals:
        return {m.name: m.sums(outputs, sizes) for m in self._metrics if m.name in outputs}


def trainer(spec: str | os.PathLike[str], **options: Any) -> Trainer:
    """A trainer of a spec with a section `train`: docs/TRAINING.md. `options` are those of
    `xlac.compile`. Raises SourceError, and UnsupportedError where there is no derivative.
    """
    return Trainer(spec, **options)
