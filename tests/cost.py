"""What tests cost: seconds of processor time, in this process and in those it waited for, by folder
and by file. `make test-cost` prints it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping

import pytest

FILES, TESTS = 25, 25  # the dearest of each are printed
STARTED = pytest.StashKey[float]()
SPENT = "processor seconds"


def processor_seconds() -> float:
    """What this process has spent so far, with its children that ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Cost:
    """A plugin of pytest that sums up what every test spends, its fixtures included."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}  # by test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        item.stash[STARTED] = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown":  # goes with the report to the process that prints
            spent = processor_seconds() - item.stash[STARTED]
            report.user_properties = [*report.user_properties, (SPENT, spent)]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.spent[report.nodeid] = float(str(dict(report.user_properties)[SPENT]))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.spent:
            terminalreporter.section("processor seconds")
            for line in table(self.spent):
                terminalreporter.write_line(line)


def table(spent: Mapping[str, float]) -> Iterator[str]:
    """The lines to print of what each test spent: folders, then the dearest files and tests."""
    folders: dict[str, float] = {}
    files: dict[str, float] = {}
    counts: Counter[str] = Counter(spent.keys())
    for test, seconds in spent.items():
        file = test.partition("::")[0]
        for name, part in (("/".join(file.split("/")[:2]), folders), (file, files)):
            part[name] = part.get(name, 0.0) + seconds
            counts[name] += 1
    yield f"{sum(spent.values()):8.1f}  {len(spent):5}  all"
    for title, some, most in (
        ("folder", folders, None),
        ("file", files, FILES),
        ("test", spent, TESTS),
    ):
        yield f"\nby {title}: seconds, tests"
        for name in sorted(some, key=some.__getitem__, reverse=True)[:most]:
            yield f"{some[name]:8.1f}  {counts[name]:5}  {name}"
