"""Finds installed backends through the `xlac.backends` entry points."""

from __future__ import annotations

from importlib.metadata import entry_points

from xlac_sdk.backend import Backend
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError


def installed() -> list[str]:
    """Names of the backends that are installed, working or not; none is imported."""
    return sorted({point.name for point in entry_points(group="xlac.backends")})


def find(name: str) -> Backend:
    """Imports one backend, so a broken one cannot break the others. `cuda:1` is the backend `cuda` for its device 1.

    Raises SourceError for an unknown name and UnsupportedError for a plug-in that does not import.
    """
    name, _, number = name.partition(":")
    for point in entry_points(group="xlac.backends", name=name):
        try:
            backend = point.load()
        except Exception as error:
            problem = f"backend '{name}' ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise UnsupportedError(Diagnostic("XL5002", problem)) from error
        if not isinstance(backend, Backend):
            problem = f"backend '{name}': {point.value} is a {type(backend).__name__}, not an xlac_sdk Backend"
            raise UnsupportedError(Diagnostic("XL5003", problem))
        return backend.on(int(number)) if number.isdecimal() else backend
    from difflib import get_close_matches

    names = installed()
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"installed: {', '.join(names) or 'none'}"
    raise SourceError(Diagnostic("XL5001", f"no backend '{name}' is installed", hint=hint))
