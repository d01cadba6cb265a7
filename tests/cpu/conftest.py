"""Fixtures of the cpu backend's tests."""

from __future__ import annotations

import platform

import pytest


@pytest.fixture
def x86() -> bool:
    return platform.machine() in ("x86_64", "AMD64")
