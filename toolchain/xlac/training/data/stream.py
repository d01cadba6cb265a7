"""Data that come in batches, in an order of their own: a DataLoader, or any iterable that can be
iterated once per epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeGuard

from xlac.training.data.batches import Batch, EpochOrder
from xlac.training.data.column import ArrayColumn, TrainingInput, fault
from xlac.training.data.fitted import (
    FittedColumn,
    Progress,
    arranged,
    array_column,
    check_shape,
    check_values,
    converts_exactly,
)
from xlac.training.data.rows import ColumnData, SampleData
from xlac.training.data.values import array_of, named
from xlac_sdk.dtypes import Array

_SINGLE = (
    "this is one example, and an iterable gives batches: .batch(16) of a streamed Hugging Face "
    "dataset, batch_size=16 of a DataLoader"
)


class BatchData:
    """Batches from a user's iterable: mappings from inputs to arrays, or tuples in the inputs'
    order. Each epoch iterates anew, after a call of `set_epoch` where there is one. An iterable
    with `state_dict` and `load_state_dict` is `resumable`: a resumed run does not make the batches
    before again.
    """

    def __init__(
        self,
        batches: Iterable[Any] | Callable[[], Iterable[Any]],
        inputs: Mapping[str, TrainingInput],
    ) -> None:
        if isinstance(batches, Iterator):
            problem = (
                f"{type(batches).__name__} gives its batches only once, and each epoch needs them"
            )
            raise fault("XL6310", problem, "give a list, or a function that makes an iterator")
        self._batches, self._inputs = batches, inputs
        size = getattr(batches, "batch_size", None)
        self.size: int | None = size if isinstance(size, int) else 0
        kind = type(batches)
        self.digest = f"{kind.__module__}.{kind.__qualname__}"
        self.resumable = all(
            callable(getattr(batches, name, None)) for name in ("state_dict", "load_state_dict")
        )
        self._restored = False  # the next epoch begins at a restored state

    def verify(self, progress: Progress) -> None:
        """Checks nothing: batches are checked when they are used."""

    def steps(self, order: EpochOrder) -> int | None:
        """How many batches an epoch has, where the iterable has a length."""
        try:
            return len(self._batches)  # type: ignore[arg-type]
        except TypeError:
            return None

    def loader_state(self) -> Any:
        """The loader's `state_dict`, after the last batch that it gave; only where `resumable`."""
        return self._batches.state_dict()  # type: ignore[union-attr]

    def restore_loader(self, state: Any) -> None:
        """Sets the loader's state; the next epoch begins there. Only where `resumable`."""
        self._batches.load_state_dict(state)  # type: ignore[union-attr]
        self._restored = True

    def batches(self, order: EpochOrder, start: int) -> Iterator[Batch]:
        """The batches of an epoch from batch `start` on. Earlier ones are made and dropped, unless
        the loader's state was restored. Raises SourceError.
        """
        given = self._batches
        iterable: Iterable[Any] = given() if _is_function(given) else given  # type: ignore[assignment]
        for part in (
            iterable,
            getattr(iterable, "sampler", None),
            getattr(iterable, "dataset", None),
        ):
            set_epoch = getattr(part, "set_epoch", None)
            if set_epoch is not None and order.epoch is not None:
                set_epoch(order.epoch)
        skipped, self._restored = 0 if self._restored else start, False
        for number, item in enumerate(islice(iter(iterable), skipped, None), start):
            yield self._arrays(item, f"batch {number}")

    def _arrays(self, item: Any, place: str) -> Batch:
        values = named(item, self._inputs, place)
        batch: Batch = {}
        rows: dict[str, int] = {}
        for name, one in self._inputs.items():
            array = array_of(values[name], one, place)
            batch[name] = self._fitted(array, one, place)
            if one.axis is not None:
                rows[name] = len(array)
        if len(set(rows.values())) > 1:
            counts = ", ".join(f"{count} of '{name}'" for name, count in rows.items())
            raise fault("XL6305", f"{place}: inputs have different numbers of rows: {counts}")
        return batch

    @staticmethod
    def _fitted(array: Array, one: TrainingInput, place: str) -> Array:
        shaped = array[None] if one.axis is None else array
        hint = _SINGLE if one.axis is not None and one.takes(array.shape) else ""
        if not shaped.ndim:
            raise fault("XL6304", f"{place}: input '{one.name}' is a single number", hint)
        check_shape(shaped.shape[1:], one, place, hint)
        checks_bounds = not converts_exactly(array.dtype, one, place)
        check_values(shaped, one, lambda at: f"{place}, row {at}", checks_bounds)
        return arranged(shaped, one)


def python_data(
    data: Any, inputs: Mapping[str, TrainingInput]
) -> ColumnData | SampleData | BatchData:
    """Data from a Python program: a mapping of arrays by input, a sequence of samples, or an
    iterable of batches. Raises SourceError for anything else.
    """
    if isinstance(data, Mapping):
        arrays = named(data, inputs, "the data")
        columns = {}
        for name, one in inputs.items():
            column = array_column(arrays[name], name)
            if one.axis is None:
                column = ArrayColumn(column.array[None], column.source)
            elif not column.array.ndim:
                raise fault("XL6304", f"'{name}' is a single number, and has no rows")
            columns[name] = FittedColumn(column, one)
        return ColumnData(columns)
    if _is_function(data):
        return BatchData(data, inputs)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return BatchData(data, inputs) if _holds_batches(data, inputs) else SampleData(data, inputs)
    if isinstance(data, Iterable):
        return BatchData(data, inputs)
    problem = f"{type(data).__name__} cannot be trained on"
    hint = "a mapping of arrays by input, a sequence of samples, or an iterable of batches"
    raise fault("XL6310", problem, hint)


def _is_function(data: Any) -> TypeGuard[Callable[[], Iterable[Any]]]:
    """Whether data are a function that makes an iterable."""
    return callable(data) and (isinstance(data, type) or not isinstance(data, Iterable))


def _holds_batches(data: Any, inputs: Mapping[str, TrainingInput]) -> bool:
    """Whether the first element of a sequence is a batch: its arrays have the inputs' rank."""
    if not len(data):
        return False
    first = named(data[0], inputs, "sample 0")
    counted = [one for one in inputs.values() if one.axis is not None]
    return all(array_of(first[o.name], o, "sample 0").ndim == o.type.rank for o in counted)
