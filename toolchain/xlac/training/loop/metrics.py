"""metrics.csv: a row for each epoch, and row 0 before the first step."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from xlac.training.loop.files import replacing
from xlac.training.loop.options import AVERAGED, VALIDATE

MetricsRow = dict[str, float]


def metric_columns(
    metrics: Sequence[str], validates: bool, averages: bool = False, steps: Sequence[str] = ()
) -> tuple[str, ...]:
    """The columns: epoch, step, each metric, the metrics `steps` that only steps have, each metric
    on the validation data, there also with averaged weights, and seconds.
    """
    prefixes = [VALIDATE, AVERAGED] if averages else [VALIDATE]
    more = tuple(f"{p}{name}" for p in prefixes for name in metrics) if validates else ()
    return ("epoch", "step", *metrics, *steps, *more, "seconds")


class MetricsTable:
    """The rows of a run, in memory and on disk."""

    def __init__(self, path: Path, columns: tuple[str, ...]) -> None:
        self.path, self.columns = path, columns
        self.rows: list[MetricsRow] = []

    def begin(self, until: int) -> None:
        """Reads the rows for epochs up to `until` from the file, and removes later ones, which a
        resumed run computes again.
        """
        self.rows = []
        if self.path.is_file():
            text = self.path.read_text(encoding="utf-8", errors="replace")
            whole = text[: text.rfind("\n") + 1]  # the last line may be incomplete
            for row in csv.DictReader(io.StringIO(whole)):
                if tuple(row) == self.columns and _numbers(row) and int(row["epoch"]) <= until:
                    self.rows.append(_typed(row))
        with replacing(self.path, "metrics.csv") as temporary:
            temporary.write_text(self._text([self.columns, *map(self._values, self.rows)]), "utf-8")

    def append(self, row: MetricsRow) -> None:
        """Adds a row, and syncs it to disk. Raises OSError."""
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._text([self._values(row)]))
            file.flush()
            os.fsync(file.fileno())

    def _values(self, row: Mapping[str, float]) -> list[str]:
        return [repr(row[name]) for name in self.columns]

    @staticmethod
    def _text(rows: Sequence[Sequence[str]]) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        return text.getvalue()


def _numbers(row: Mapping[str, str]) -> bool:
    try:
        _typed(row)
    except (ValueError, TypeError):
        return False
    return True


def _typed(row: Mapping[str, str]) -> MetricsRow:
    return {
        name: int(text) if name in ("epoch", "step") else float(text) for name, text in row.items()
    }
