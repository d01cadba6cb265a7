"""A run: epochs of steps, each followed by a row of metrics and a checkpoint."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from pathlib import Path
from typing import Any

from xlac.training.data.batches import Batch, EpochOrder, TrainingData, prefetched
from xlac.training.data.column import fault
from xlac.training.data.fitted import training_inputs
from xlac.training.loop.checkpoint import Checkpoint, RunPosition
from xlac.training.loop.events import EventWriter, event_writer
from xlac.training.loop.identity import compare, identity
from xlac.training.loop.interrupt import Interrupt, finishing_steps
from xlac.training.loop.loader_state import LoaderPosition
from xlac.training.loop.metrics import MetricsRow, metric_columns
from xlac.training.loop.options import AVERAGED, VALIDATE, RunOptions, batch_size, best_metric
from xlac.training.loop.report import RunReport, SilentReport
from xlac.training.loop.steps import (
    Evaluation,
    Sums,
    TrainingSteps,
    added,
    begin_length,
    failed_step,
    is_finite,
    loss_not_finite,
    means,
    out_of_order,
)
from xlac.training.ranks.folder import run_files
from xlac_sdk.source import Diagnostic, LimitError, SourceError


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """The result of a run: the rows of metrics.csv, the number of steps done, and its folder."""

    metrics: list[MetricsRow]
    steps: int
    folder: Path


class TrainingLoop:
    """Trains on data, with its results in a folder. `about` is the content of run.json."""

    def __init__(
        self,
        steps: TrainingSteps,
        data: TrainingData,
        validate: TrainingData | None,
        options: RunOptions,
        folder: Path,
        report: RunReport,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.steps, self.data, self.validate, self.options = steps, data, validate, options
        self._ranks = steps.ranks
        self._writes = self._ranks is None or self._ranks.rank == 0
        self.report, self._about = report if self._writes else SilentReport(), about or {}
        if options.tensorboard:
            event_writer()
        inputs = training_inputs(steps.inputs, steps.batch, steps.ranges)
        self.batch = batch_size(steps, inputs, data, options)
        columns = metric_columns(
            steps.metrics, validate is not None, steps.averages, steps.step_metrics
        )
        self.best = best_metric(options, columns[2:-1], validate is not None, steps.losses)
        self.folder, self.table = run_files(self._ranks, folder, options.keep, columns)
        self.position = RunPosition()
        self._began = time.monotonic()
        self._events: EventWriter | None = None
        self._interrupt = Interrupt()
        self._loader = LoaderPosition.of(data)

    # ---- the whole run -----------------------------------------------------------------------

    def run(self, resume: bool = False) -> TrainingRun:
        """Trains to the end. After ctrl-C or SIGTERM it finishes the step, writes a checkpoint, and
        raises KeyboardInterrupt or SystemExit(143). Raises SourceError, and LimitError where the
        disk is full.
        """
        with ExitStack() as held:
            self.folder.check(resume)
            self.data.verify(self.report.count)
            if self.validate is not None:
                self.validate.verify(self.report.count)
            held.enter_context(self.folder.locked())
            self._interrupt = held.enter_context(finishing_steps())
            newest = self.folder.newest(self.report.say) if resume else None
            self._begin(newest)
            if self.options.tensorboard and self._writes:
                self._events = EventWriter(self.folder.path / "tensorboard", self.position.step)
                held.callback(self._events.close)
            if not self.table.rows:
                self._row_zero()
            while not self._over():
                self._epoch()
            waited, patience = self.position.waited, self.options.patience
            if self.best is not None and patience is not None and waited >= patience:
                self.report.say(f"{self.best.column} was not better for {waited} epochs: the end")
            if self.position.batches:  # --max-steps came within an epoch
                self._append(self._epoch_row(self.position.epoch + 1))
            self.folder.save_weights(self.steps, self.options.merge)
        return TrainingRun(self.table.rows, self.position.step, self.folder.path)

    def _begin(self, saved: Checkpoint | None) -> None:
        """Restores a checkpoint, or writes the first one."""
        length = self._length()
        begin_length(self.steps, length)
        if self.options.shuffle and self.steps.carries:
            self.report.say(out_of_order(self.steps.carries))
        if saved is not None:
            compare(saved.identity, self._identity(), self.folder)
        self.folder.describe({**self._about, "identity": self._identity()})
        if saved is None:
            self.table.begin(-1)
            self._save()
            return
        self.steps.restore(saved.state)
        if self._loader is not None and saved.loader is not None:
            self._loader.restore(saved.loader)
        if length is not None:
            self.steps.set_length(length)  # a resumed run may be longer than planned before
        self.position = saved.position
        self._began = time.monotonic() - saved.position.seconds
        self.table.begin(saved.position.epoch)
        self.report.say(f"going on from step {saved.position.step}, epoch {saved.position.epoch}")
        if self._keeps_best and saved.position.best_step == saved.position.step:
            self.folder.keep_best(saved.position.step, self.steps, self.options.merge)

    def _length(self) -> int | None:
        """The number of steps of the whole run, if known."""
        epoch = self.data.steps(self._order(None))
        whole = math.inf if None in (epoch, self.options.epochs) else epoch * self.options.epochs  # type: ignore[operator]
        most = math.inf if self.options.max_steps is None else self.options.max_steps
        return None if min(whole, most) == math.inf else int(min(whole, most))

    def _identity(self) -> dict[str, Any]:
        return identity(self.steps, self.data, self.options, self.batch)

    # ---- an epoch ----------------------------------------------------------------------------

    def _over(self) -> bool:
        chosen, here = self.options, self.position
        if chosen.patience is not None and here.waited >= chosen.patience:
            return True
        if chosen.max_steps is not None and here.step >= chosen.max_steps:
            return True
        return chosen.epochs is not None and here.epoch >= chosen.epochs

    def _order(self, epoch: int | None) -> EpochOrder:
        chosen = self.options
        return EpochOrder(max(1, self.batch), epoch, chosen.seed, chosen.drop_last)

    def _epoch(self) -> None:
        """Trains for an epoch, or the rest of one. Raises KeyboardInterrupt."""
        here, number = self.position, self.position.epoch + 1
        ordered = self._order(number if self.options.shuffle else None)
        total = self.data.steps(ordered) or 0
        label = f"epoch {number}"
        if not here.batches:  # else the checkpoint has what the model carries
            self.steps.begin_sequence("step")
        step_batches = self.data.batches(ordered, here.batches)
        # a loader whose position is saved may not run ahead of the steps: no prefetching
        with nullcontext(step_batches) if self._loader else prefetched(step_batches) as batches:
            for arrays in batches:
                self._step(arrays)
                self._stop_if_asked()
                self.report.count(label, here.batches, total)
                if here.step == self.options.max_steps and here.batches != total:
                    self._save()
                    return
                every = self.options.checkpoint_every
                if every and here.step % every == 0:
                    self._save()
        if not here.batches:
            raise fault("XL6305", f"epoch {number} has no batch")
        self._end_epoch()

    def _step(self, arrays: Batch) -> None:
        here = self.position
        try:
            sums = self.steps.run_step(arrays)
        except SourceError as error:
            raise failed_step(error, here.step, here.epoch, self.folder.last) from None
        for name in (one for one in self.steps.losses if not is_finite(sums[one])):
            raise loss_not_finite(name, sums[name], here.step, here.epoch, self.folder.last)
        here.sums = added(here.sums, sums)
        here.step += 1
        here.batches += 1

    def _end_epoch(self) -> None:
        """Ends an epoch: writes its row of metrics and, where due, its checkpoint."""
        here = self.position
        row = self._epoch_row(here.epoch + 1)
        self._append(row)
        better = False
        if self.best is not None:
            value = row[self.best.column]
            better = self.best.improves(value, here.best)
            if better:
                here.best, here.best_step, here.waited = value, here.step, 0
            else:
                here.waited += 1
        here.epoch, here.batches, here.sums = here.epoch + 1, 0, {}
        keeps_best = better and self._keeps_best
        if keeps_best or not self.options.checkpoint_every or self._over():
            self._save()
        if keeps_best:
            self.folder.keep_best(here.step, self.steps, self.options.merge)
        self._stop_if_asked()

    @property
    def _keeps_best(self) -> bool:
        return bool(self.options.best) or (self.best is not None and self.validate is not None)

    def _epoch_row(self, epoch: int) -> MetricsRow:
        validated = self._validated(f"validating epoch {epoch}")
        return self._row(epoch, means(self.position.sums), validated)

    def _row_zero(self) -> None:
        label = "evaluating before the first step"
        trained = self._evaluated(self.data, label, self.steps.run_evaluate)
        validated = self._validated("validating before the first step")
        self._append(self._row(0, trained, validated))

    def _row(self, epoch: int, trained: MetricsRow, validated: MetricsRow) -> MetricsRow:
        seconds = round(time.monotonic() - self._began, 3)
        here = dict.fromkeys(self.table.columns, math.nan)  # columns that evaluations lack
        return {
            **here,
            "epoch": epoch,
            "step": self.position.step,
            **trained,
            **validated,
            "seconds": seconds,
        }

    def _validated(self, label: str) -> MetricsRow:
        """The metrics on the validation data, where there are such, by column."""
        if self.validate is None:
            return {}
        evaluations: dict[str, Evaluation] = {VALIDATE: self.steps.run_evaluate}
        if self.steps.averages:
            evaluations[AVERAGED] = self.steps.ema.run_evaluate
        parts = {p: self._evaluated(self.validate, label, e) for p, e in evaluations.items()}
        return {f"{prefix}{n}": value for prefix, one in parts.items() for n, value in one.items()}

    def _evaluated(self, data: TrainingData, label: str, evaluate: Evaluation) -> MetricsRow:
        """The mean of each metric over data, in the order in which they are stored. `label` names
        the activity in reports. Raises KeyboardInterrupt.
        """
        sums: Sums = {}
        stored = replace(self._order(None), drop_last=data is self.data and self.options.drop_last)
        total = data.steps(stored) or 0
        self.steps.begin_sequence("evaluate")
        with prefetched(data.batches(stored, 0)) as batches:
            for number, arrays in enumerate(batches, 1):
                sums = added(sums, evaluate(arrays))
                self.report.count(label, number, total)
                self._stop_if_asked()
        if not sums:
            raise fault("XL6305", f"{label}: there is no batch")
        return means({name: sums[name] for name in self.steps.metrics})

    # ---- metrics and checkpoints on disk -----------------------------------------------------

    def _append(self, row: MetricsRow) -> None:
        try:
            self.table.append(row)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            problem = f"{self.table.path}: the disk is full"
            hint = f"{self.folder.last} is whole: --resume {self.folder.path} goes on from it"
            raise LimitError(Diagnostic("XL4002", problem, hint=hint)) from None
        if self._events is not None:
            self._events.write(row)
        self.report.row(row)

    def _save(self) -> None:
        self.position.seconds = time.monotonic() - self._began
        place = self._loader.state(self.report.say) if self._loader else None
        self.folder.save(Checkpoint(self._identity(), self.position, self.steps.state(), place))

    def _stop_if_asked(self) -> None:
        """After ctrl-C or SIGTERM: a checkpoint, and KeyboardInterrupt or SystemExit."""
        if self._interrupt.is_asked(self._ranks):
            self._save()
            step, path = self.position.step, self.folder.path
            self.report.say(f"step {step} is saved: --resume {path} goes on from it")
            raise self._interrupt.end()
