"""Data that come as batches, in an order of their own: a DataLoader, or whatever can be iterated
once an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeGuard

from xlac.training.data.batches import Batch, EpochOrder
from xlac.training.data.column import ArrayColumn, TrainingInput, fault
from xlac.training.data.fitted import (
    FittedColumn,
    Tell,
    arranged,
    array_column,
    check_shape,
    check_values,
    conversion,
)
from xlac.training.data.rows import ColumnData, SampleData
from xlac.training.data.values import array_of, named
from xlac_sdk.dtypes import Array


class BatchData:
    """Batches that somebody else makes: mappings from inputs to arrays, or tuples in the inputs'
    order. Each epoch iterates anew; `set_epoch`, where there is one, is told its number. What has
    `state_dict` and `load_state_dict` says itself where it is: a run that goes on makes no batch
    twice.
    """

    def __init__(self, batches: Iterable[Any] | Callable[[], Iterable[Any]], inputs: Mapping[str, TrainingInput]) -> None:  # fmt: skip
        if isinstance(batches, Iterator):
            problem = (
                f"{type(batches).__name__} gives its batches only once, and each epoch wants them"
            )
            raise fault("XL6310", problem, "give a list, or a function that makes an iterator")
        self._batches, self._inputs = batches, inputs
        size = getattr(batches, "batch_size", None)
        self.size: int | None = size if isinstance(size, int) else 0
        kind = type(batches)
        self.digest = f"{kind.__module__}.{kind.__qualname__}"
        self.keeps_place = all(
            callable(getattr(batches, name, None)) for name in ("state_dict", "load_state_dict")
        )
        self._placed = False  # it goes on from a state that it was given

    def verify(self, tell: Tell) -> None:
        """Nothing: batches are checked when they come."""

    def steps(self, order: EpochOrder) -> int | None:
        """How many batches an epoch has, where the iterable has a length."""
        try:
            return len(self._batches)  # type: ignore[arg-type]
        except TypeError:
            return None

    def place(self) -> Any:
        """Where the loader is, after the last batch that it gave; only where it `keeps_place`."""
        return self._batches.state_dict()  # type: ignore[union-attr]

    def go_on(self, place: Any) -> None:
        """The next epoch that is asked for begins there."""
        self._batches.load_state_dict(place)  # type: ignore[union-attr]
        self._placed = True

    def batches(self, order: EpochOrder, start: int) -> Iterator[Batch]:
        """The batches of an epoch; those before number `start` are made and left, unless the loader
        goes on from there itself. Raises SourceError.
        """
        given = self._batches
        made: Iterable[Any] = given() if _is_function(given) else given  # type: ignore[assignment]
        for told in (made, getattr(made, "sampler", None), getattr(made, "dataset", None)):
            hear = getattr(told, "set_epoch", None)
            if hear is not None and order.epoch is not None:
                hear(order.epoch)
        left, self._placed = 0 if self._placed else start, False
        for number, item in enumerate(islice(iter(made), left, None), start):
            yield self._arrays(item, f"batch {number}")

    def _arrays(self, item: Any, place: str) -> Batch:
        values = named(item, self._inputs, place)
        found: Batch = {}
        rows: dict[str, int] = {}
        for name, one in self._inputs.items():
            array = array_of(values[name], one, place)
            found[name] = self._fitted(array, one, place)
            if one.axis is not None:
                rows[name] = len(array)
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{count} of '{name}'" for name, count in rows.items())
            raise fault("XL6305", f"{place}: inputs have different numbers of rows: {told}")
        return found

    @staticmethod
    def _fitted(array: Array, one: TrainingInput, place: str) -> Array:
        shaped = array[None] if one.axis is None else array
        if not shaped.ndim:
            raise fault("XL6304", f"{place}: input '{one.name}' is a single number")
        check_shape(shaped.shape[1:], one, place)
        looks = not conversion(array.dtype, one, place)
        check_values(shaped, one, lambda at: f"{place}, row {at}", looks)
        return arranged(shaped, one)


def python_data(
    data: Any, inputs: Mapping[str, TrainingInput]
) -> ColumnData | SampleData | BatchData:
    """Data of a Python program: a mapping of arrays by input, a sequence of samples, or an iterable
    of batches. Raises SourceError for what is none of these.
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
    """Whether data are what makes an iterable, and none themselves."""
    return callable(data) and (isinstance(data, type) or not isinstance(data, Iterable))


def _holds_batches(data: Any, inputs: Mapping[str, TrainingInput]) -> bool:
    """Whether the first element of a sequence has an axis of rows."""
    if not len(data):
        return False
    first = named(data[0], inputs, "sample 0")
    counted = [one for one in inputs.values() if one.axis is not None]
    return all(array_of(first[o.name], o, "sample 0").ndim == o.type.rank for o in counted)
