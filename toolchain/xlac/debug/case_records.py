"""What earlier runs of a backend's conformance cases tell the next one, kept in the user's cache
folder: which cases failed, and which passed in a run that was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO
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
