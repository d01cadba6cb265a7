"""`xlac.train`: a training run from Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xlac.training.data.batches import TrainingData
from xlac.training.data.files import Columns, file_data
from xlac.training.data.fitted import training_inputs
from xlac.training.data.stream import python_data
from xlac.training.loop.options import RunOptions
from xlac.training.loop.report import RunReport, SilentReport
from xlac.training.loop.run import TrainingLoop, TrainingRun
from xlac.training.loop.steps import TrainingSteps


def train(
    trainer: TrainingSteps,
    data: Any,
    run: str | os.PathLike[str],
    *,
    validate: Any = None,
    resume: bool = False,
    columns: Columns | None = None,
    resize: bool = False,
    report: RunReport | None = None,
    **options: Any,
) -> TrainingRun:
    """Trains a model: `xlac.train(xlac.trainer("digits_train.yaml"), {"image": x, "label": t},
    "run", epochs=10, batch=32)`.

    `data` and `validate` are paths, as `xlac train` takes them; a mapping of arrays by input, whose
    rows are samples; a sequence of samples (a dataset of PyTorch or Hugging Face); or an iterable
    of batches (a DataLoader). `run` is the folder for metrics.csv, checkpoints and weights;
    `resume` continues the run in it, with the same results to the bit. `options` are of RunOptions:
    epochs, batch, seed, drop_last, shuffle, max_steps, patience, best, keep, checkpoint_every,
    tensorboard.

    Raises SourceError for data that do not fit, LimitError for a full disk, and KeyboardInterrupt
    after ctrl-C, SystemExit with 143 after SIGTERM, when the step is finished and its checkpoint
    written.
    """
    chosen = RunOptions(**options)
    trained = opened(trainer, data, columns, resize)
    validated = None if validate is None else opened(trainer, validate, columns, resize)
    loop = TrainingLoop(
        trainer, trained, validated, chosen, Path(run), report or SilentReport(), asdict(chosen)
    )
    return loop.run(resume)


def opened(
    trainer: TrainingSteps, data: Any, columns: Columns | None = None, resize: bool = False
) -> TrainingData:
    """Opens data of any kind that `train` accepts. Raises SourceError and OSError."""
    inputs = training_inputs(trainer.inputs, trainer.batch, trainer.ranges)
    if isinstance(data, str | os.PathLike):
        data = [os.fspath(data)]
    if isinstance(data, Sequence) and data and all(isinstance(d, str | os.PathLike) for d in data):
        return file_data([os.fspath(text) for text in data], inputs, columns, resize)
    return python_data(data, inputs)
