"""The opencl backend: its text needs no driver, running it does."""

from __future__ import annotations

import pytest

from xlac_sdk.source import UnsupportedError

collect_ignore_glob: list[str] = []
try:
    from xlac_opencl.device import device_of
except ImportError:  # the distribution is not installed
    collect_ignore_glob.append("test_*.py")


@pytest.fixture(scope="session")
def device() -> object:
    """A device of this machine."""
    try:
        return device_of(0)
    except UnsupportedError as error:
        pytest.skip(str(error))
