"""The options of a run, and what follows: batch size, and the metric of the best epoch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from xlac.ir.dims import bounds, symbols
from xlac.training.data.batches import EpochOrder, TrainingData
from xlac.training.data.column import TrainingInput, fault
from xlac.training.loop.steps import TrainingSteps

VALIDATE = "validate_"
"""The prefix of metrics on the validation data."""
AVERAGED = "validate_ema_"
"""The prefix of metrics on the validation data with averaged weights."""
MOST = 2**63 - 1  # of steps, rows and other counts


@dataclass(frozen=True, slots=True)
class RunOptions:
    """A run of `epochs` over the data or `max_steps`, whichever ends first.

    `batch` None is the open size's `opt`. `best` is `COLUMN:min` or `:max` of metrics.csv: the
    checkpoint of the best epoch is kept beside the last `keep`, and the run ends after `patience`
    epochs without improvement. Checkpoints are written after each epoch, or every
    `checkpoint_every` steps. Without `merge`, LoRA factors are written alone, not weights that
    contain them.
    """

    epochs: int | None = None
    batch: int | None = None
    seed: int = 0
    drop_last: bool = False
    shuffle: bool = True
    max_steps: int | None = None
    patience: int | None = None
    best: str = ""
    keep: int = 3
    checkpoint_every: int | None = None
    tensorboard: bool = False
    merge: bool = True

    def __post_init__(self) -> None:
        if self.epochs is None and self.max_steps is None:
            raise fault(
                "XL6337", "the length of the training is not given", "--epochs N, or --max-steps N"
            )
        for name in (
            "epochs",
            "batch",
            "max_steps",
            "patience",
            "keep",
            "checkpoint_every",
            "seed",
        ):
            value, label = getattr(self, name), name.replace("_", "-")
            least = 0 if name in ("epochs", "max_steps", "seed") else 1
            whole = isinstance(value, Integral) and not isinstance(value, bool)
            if value is None and name not in ("keep", "seed"):
                continue
            if not whole:
                raise fault("XL6337", f"{label} is {value!r}, and a whole number")
            if value < least:
                raise fault("XL6337", f"{label} is {value}, and at least {least}")
            if value > MOST:
                raise fault("XL6337", f"{label} is {value}, and at most {MOST}")


@dataclass(frozen=True, slots=True)
class BestMetric:
    """The metric by which epochs are compared, and whether less of it is better."""

    column: str
    least: bool

    def improves(self, value: float, before: float | None) -> bool:
        """Whether a value is better than the best before; NaN never is."""
        if math.isnan(value):
            return False
        if before is None:
            return True
        return value < before if self.least else value > before


def best_metric(
    options: RunOptions, columns: Sequence[str], validates: bool, losses: Sequence[str]
) -> BestMetric | None:
    """The metric that `options.best` names, such as `validate_accuracy:max`; by default the loss,
    on the validation data where there are such. None where there are several losses and none is
    named. Raises SourceError.
    """
    text = options.best
    if not text and len(losses) > 1:
        if options.patience is not None:
            hint = f"--best {losses[0]}:min"
            raise fault("XL6337", "it is not given which of the losses --patience watches", hint)
        return None
    match = re.fullmatch(
        r"(.+?)(?::(min|max))?", text or f"{VALIDATE * validates}{losses[0]}:min", re.DOTALL
    )
    assert match is not None
    name, way = match[1], match[2]
    if name not in columns:
        hint = f"there are {', '.join(columns)}"
        raise fault("XL6337", f"there is no metric '{name}'", hint)
    if way is None:
        if name.removeprefix(AVERAGED).removeprefix(VALIDATE) not in losses:
            problem = f"it is not given whether '{name}' should be small or large"
            raise fault("XL6337", problem, f"{name}:max or {name}:min")
        way = "min"
    return BestMetric(name, way == "min")


def batch_size(
    steps: TrainingSteps, inputs: dict[str, TrainingInput], data: TrainingData, options: RunOptions
) -> int:
    """The number of rows in a batch: as chosen, as the data decide, the open size's `opt`, or the
    fixed size of the inputs; 0 where the data come in batches of their own. Raises SourceError.
    """
    if data.size is not None:
        if options.batch is not None:
            problem = "the data are batches already, and their size cannot be chosen"
            raise fault("XL6309", problem, "leave batch out: what makes the batches decides it")
        return data.size
    if not steps.batch:
        size = bounds(next(iter(inputs.values())).type.shape[0])[0]
        if options.batch is not None:
            hint = "an open size of the inputs, named in the spec: train: {batch: NAME}"
            raise fault("XL6309", f"the inputs have {size} rows, and no size to choose", hint)
        order = EpochOrder(size, drop_last=options.drop_last)
        _check_last_batch(data, order, size, f"every batch has {size}")
        return size
    symbol = next(
        symbol
        for one in inputs.values()
        for dim in one.type.shape
        for symbol in symbols(dim)
        if symbol.name == steps.batch
    )
    size = options.batch if options.batch is not None else symbol.opt
    most = symbol.max * steps.accumulate  # a step may divide the batch
    if not symbol.min <= size <= most or size % symbol.multiple_of:
        by = f", a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        problem = f"{size} rows in a batch: the size '{symbol.name}' is {symbol.min}..{most}{by}"
        raise fault("XL6309", problem, "" if options.batch else "choose it: --batch N")
    least = max(symbol.min, symbol.multiple_of)
    order = EpochOrder(size, drop_last=options.drop_last)
    requirement = (
        f"the size '{symbol.name}' is {symbol.min} or "
        f"more{' and divisible' * (symbol.multiple_of > 1)}"
    )
    _check_last_batch(data, order, least, requirement, symbol.multiple_of)
    return size


def _check_last_batch(
    data: TrainingData, order: EpochOrder, least: int, requirement: str, multiple: int = 1
) -> None:
    """Raises SourceError where the last, smaller batch is too small for the step."""
    rows = getattr(data, "rows", None)
    if rows is None:
        return
    if order.drop_last and rows < order.batch:
        raise fault("XL6309", f"{rows} rows are not a batch of {order.batch}", "a smaller --batch")
    rest = rows % order.batch
    if rest and not order.drop_last and (rest < least or rest % multiple):
        problem = f"the last batch of {rows:,} rows has {rest}, and {requirement}"
        raise fault(
            "XL6309", problem, "--drop-last leaves it out, another --batch divides otherwise"
        )
