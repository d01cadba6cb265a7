"""The conformance cases of a backend that failed in their last run, kept in the user's cache
folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from xlac.settings import settings
from xlac.support.whole_files import replacing

FOLDER = "last-failed"


class LastFailed:
    """The failed cases of a backend, as (group, case); a case that runs replaces its former result.
    Saved when the block ends.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.failed: set[tuple[str, str]] = set()
        self._now: dict[tuple[str, str], bool] = {}
        self._gone: set[tuple[str, str]] = set()
        if file is None:
            return
        with suppress(OSError, ValueError):  # a file that is not ours, or not whole, tells nothing
            cases = json.loads(file.read_text(encoding="utf-8"))
            if isinstance(cases, list):
                self.failed = {
                    (str(entry[0]), str(entry[1]))
                    for entry in cases
                    if isinstance(entry, list) and len(entry) == 2
                }

    @staticmethod
    def of(backend: str) -> LastFailed:
        """The failures of a backend; without a cache (XLAC_CACHE=off) nothing is saved."""
        folder = settings().cache
        return LastFailed(
            None if folder is None else Path(folder) / FOLDER / f"{quote(backend, safe='')}.json"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left = {key for key in self.failed if key not in self._now and key not in self._gone} | {
            key for key, failed in self._now.items() if failed
        }
        if self.file is None or left == self.failed:
            return
        # a cache that cannot be written is no error
        with suppress(OSError), replacing(self.file) as temporary:
            temporary.write_text(json.dumps(sorted(left)), encoding="utf-8")

    def chosen(self, again: bool) -> Callable[[str, str], bool]:
        """Whether to run a case of a group, or any case of the group for ""; with `again`, failed
        ones only.
        """
        groups = {group for group, _ in self.failed}
        # an output of a case is named CASE: OUTPUT
        names = {(group, case) for group, case in self.failed} | {
            (group, case.rpartition(": ")[0]) for group, case in self.failed
        }
        if not again or not self.failed:
            return lambda group, case: True
        return lambda group, case: (group, case) in names if case else group in groups

    def ran(self, group: str, case: str, failed: bool) -> None:
        """Records a case of this run; one with several outcomes failed if any did."""
        self._now[group, case] = failed or self._now.get((group, case), False)

    def complete(self, covers: Callable[[str], bool]) -> None:
        """The run is complete: former failures in the groups that it `covers` that did not run are
        cases that no longer exist.
        """
        self._gone = {(group, case) for group, case in self.failed if covers(group)}
