"""Environment variables. No other module reads them."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from xlac_sdk.source import Diagnostic, SourceError

CACHE_BYTES = 1 << 30


class Settings(NamedTuple):
    """XLAC_THREADS, XLAC_CACHE (a folder; `off` or `0` for none), XLAC_CACHE_BYTES, XLAC_CHECKED,
    XLAC_VERIFY_EACH and XLAC_MEASURE.
    """

    threads: int
    cache: str | None  # a folder; None: compile without a cache
    cache_bytes: int
    # 1: every program is checked; or the kinds of checks, as `xlac.compile` takes them
    checked: bool | str = False
    verify_each: bool = False  # 1: the graph is verified after every pass that changed it
    # 1: this machine is measured before the first compilation for it
    measure: bool = False


def settings() -> Settings:
    """The present settings. Raises SourceError for a variable with an invalid value."""
    return Settings(
        _number("XLAC_THREADS", 1, 1, 1024),
        _cache(),
        _number("XLAC_CACHE_BYTES", CACHE_BYTES, 0, 1 << 50),
        _checked(),
        _switch("XLAC_VERIFY_EACH"),
        _switch("XLAC_MEASURE"),
    )


def _switch(name: str) -> bool:
    return os.environ.get(name, "").lower() not in ("", "0", "off")


def _number(name: str, default: int, low: int, high: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or not low <= int(text) <= high:
        problem = f"{name}={text!r} must be a whole number from {low} to {high}"
        raise SourceError(Diagnostic("XL5040", problem, hint="correct it, or unset it"))
    return int(text)


def _checked() -> bool | str:
    text = os.environ.get("XLAC_CHECKED", "").lower()
    return {"": False, "0": False, "off": False, "1": True, "on": True}.get(text, text)


def _cache() -> str | None:
    text = os.environ.get("XLAC_CACHE", "")
    if text.lower() in ("off", "0"):
        return None
    if text:
        return text
    # as platformdirs, without the time of importing it
    if sys.platform == "linux":
        given = os.environ.get("XDG_CACHE_HOME", "")
        return os.path.join(
            given if os.path.isabs(given) else os.path.expanduser("~/.cache"), "xlac"
        )
    from platformdirs import user_cache_dir

    return user_cache_dir("xlac", appauthor=False)
