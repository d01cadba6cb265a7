"""How much a function does, counted and not timed: a machine that is busy does not change it."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any


def calls(run: Callable[[], Any]) -> int:
    """How many functions are called, those in C too."""
    profile = cProfile.Profile()
    profile.runcall(run)
    return sum(entry.callcount for entry in profile.getstats())
