"""Which conformance cases of a backend failed when they last ran, kept in the user's cache
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
    """The failures of a backend, as (group, case): a case that runs replaces what was known of it.
    Kept when the block ends.
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
        """Of a backend; without a cache (XLAC_CACHE=off) nothing is kept."""
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
        # a cache that cannot be written to fails no run
        with suppress(OSError), replacing(self.file) as made:
            made.write_text(json.dumps(sorted(left)), encoding="utf-8")

    def chosen(self, again: bool) -> Callable[[str, str], bool]:
        """Whether to run a case of a group, or any of the group for the case ""; with `again`, of
        those only that failed.
        """
        groups = {group for group, _ in self.failed}
        # an output of a case has the case's name and its own
        names = {(group, case) for group, case in self.failed} | {
            (group, case.rpartition(": ")[0]) for group, case in self.failed
        }
        if not again or not self.failed:
            return lambda group, case: True
        return lambda group, case: (group, case) in names if case else group in groups

    def ran(self, group: str, case: str, failed: bool) -> None:
        """A case of the run that goes on; one that has several outcomes failed if any did."""
        self._now[group, case] = failed or self._now.get((group, case), False)

    def complete(self, covers: Callable[[str], bool]) -> None:
        """The run came to its end: what failed before in the groups that it `covers` and did not
        run is no case any more.
        """
        self._gone = {(group, case) for group, case in self.failed if covers(group)}
