"""Finds installed backends through the `xlac.backends` entry points."""

from __future__ import annotations

import os
import sys
from functools import reduce
from importlib import import_module

from xlac_sdk.backend import Backend
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError

GROUP = "xlac.backends"
RELEASED = ("c", "cpu", "cuda", "opencl", "reference")
"""Backends that are released with the SDK, each as a distribution `xlac-NAME`, installed or not."""


def installed() -> list[str]:
    """Names of the backends that are installed, working or not; none is imported."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=GROUP)})


def find(name: str) -> Backend:
    """Imports one backend, so a broken one cannot break the others. `cuda:1` is the backend `cuda`
    for its device 1.

    Raises SourceError for an unknown name and UnsupportedError for a plug-in that does not import.
    """
    if not isinstance(name, str):
        raise _unknown(name)
    name, colon, number = name.partition(":")
    if colon and not number.isdecimal():
        raise SourceError(
            Diagnostic(
                "XL5001",
                f"'{number:.80}' is no number of a device",
                hint=f"write {name}:0, or {name} alone",
            )
        )
    point = _declared(name) or _found(name)
    if point is None:
        raise _unknown(name)
    module, _, path = point.partition("[")[0].strip().partition(":")
    try:
        backend: object = reduce(getattr, path.split("."), import_module(module))
    except Exception as error:
        problem = f"backend '{name}' ({point}) cannot be loaded: {type(error).__name__}: {error}"
        raise UnsupportedError(Diagnostic("XL5002", problem)) from error
    if not isinstance(backend, Backend):
        problem = (
            f"backend '{name}': {point} is a {type(backend).__name__}, not an xlac_sdk Backend"
        )
        raise UnsupportedError(Diagnostic("XL5003", problem))
    return backend.on(int(number)) if number.isdecimal() else backend


def _declared(name: str) -> str | None:
    """Where a backend is (`module:attribute`), as the folders of installed distributions say, in
    the order of the path.

    `importlib.metadata` says the same, but importing it takes longer than loading a program that
    was compiled before.
    """
    for folder in sys.path:
        try:
            infos = sorted(
                entry for entry in os.listdir(folder or ".") if entry.endswith(".dist-info")
            )
        except OSError:
            continue
        for info in infos:
            try:
                with open(os.path.join(folder, info, "entry_points.txt"), encoding="utf-8") as file:
                    text = file.read()
            except (OSError, ValueError):
                continue
            point = _point(text, name) if GROUP in text else None
            if point:
                return point
    return None


def _point(text: str, name: str) -> str | None:
    """The value of a name in our group of an `entry_points.txt`."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        key, equals, value = line.partition("=")
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group == GROUP and equals and key.strip() == name:
            return value.strip()
    return None


def _found(name: str) -> str | None:
    """The same of distributions that are installed in other ways: in an archive, by a finder of
    their own.
    """
    from importlib.metadata import entry_points

    return next((point.value for point in entry_points(group=GROUP, name=name)), None)


def _unknown(name: object) -> SourceError:
    from xlac_sdk.support.choices import unknown_word

    return unknown_word(f"no backend '{name!s:.80}' is installed", name, installed(), "XL5001")
