"""The conformance cases of a backend that passed in a run that was interrupted, so that the next
one need not repeat them; kept in the user's cache folder.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO
from urllib.parse import quote

from xlac.debug.last_failed import FOLDER
from xlac.settings import settings


class FinishedCases:
    """Cases that passed, each as (group, case), of a run that `resume` continues. They are written
    as they pass, so that a run which is killed loses none.
    """

    def __init__(self, file: Path | None, resume: bool) -> None:
        self.file = file
        self.before: set[tuple[str, str]] = set()
        self._log: TextIO | None = None
        if file is None:
            return
        if resume:
            with suppress(OSError, UnicodeDecodeError):
                for line in file.read_text(encoding="utf-8").splitlines():
                    with suppress(ValueError):  # the last line of a run that was killed
                        entry = json.loads(line)
                        if isinstance(entry, list) and len(entry) == 2:
                            self.before.add((str(entry[0]), str(entry[1])))
        with suppress(OSError):  # a cache that cannot be written is no error
            file.parent.mkdir(parents=True, exist_ok=True)
            self._log = file.open("a" if resume else "w", encoding="utf-8", buffering=1)

    @staticmethod
    def of(backend: str, resume: bool) -> FinishedCases:
        """Those of a backend; without a cache (XLAC_CACHE=off) nothing is kept."""
        folder, name = settings().cache, f"{quote(backend, safe='')}.run"
        return FinishedCases(None if folder is None else Path(folder) / FOLDER / name, resume)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._log is not None:
            self._log.close()

    def left(self, group: str, case: str) -> bool:
        """Whether a case has not passed yet; "" is a group that is one case."""
        return (group, case) not in self.before

    def passed(self, group: str, case: str) -> None:
        """Records a case, of which every output is right."""
        if self._log is not None:
            with suppress(OSError):
                self._log.write(json.dumps([group, case]) + "\n")

    def complete(self) -> None:
        """The run is complete: there is nothing to resume."""
        if self._log is not None:
            self._log.close()
            self._log = None
        if self.file is not None:
            with suppress(OSError):
                self.file.unlink()
