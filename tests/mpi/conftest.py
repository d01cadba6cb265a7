"""Tests that start processes by mpirun run where they are asked for."""

from __future__ import annotations

import pytest
from mpirun import WITHOUT


@pytest.fixture(autouse=True)
def _asked(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--mpi"):
        pytest.skip("starts processes by mpirun: make test-mpi")
    if WITHOUT:
        pytest.skip(WITHOUT)
