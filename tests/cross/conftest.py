"""These tests need emulators: `make test-cross` installs them and gives `--cross`, without which
nothing here is run.
"""

from __future__ import annotations

import pytest
from machines import MACHINES, Other


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption("--cross") else True


@pytest.fixture(params=MACHINES, ids=lambda machine: machine.name)
def other(request: pytest.FixtureRequest) -> Other:
    """A machine that is not this one. A tool that is missing is an error."""
    machine: Other = request.param
    assert not machine.missing, f"{machine.missing} is not installed: see make test-cross"
    return machine
