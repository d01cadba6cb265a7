"""Finds installed backends through the `xlac.backends` entry points."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import reduce
from importlib import import_module

from xlac_sdk.backend import Backend
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError

GROUP = "xlac.backends"
DIAGNOSTICS = "diagnostics.txt"  # beside a backend's package: what its own diagnostics mean


def installed() -> list[str]:
    """Names of the installed backends, working or not; none is imported."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=GROUP)})


def diagnostics() -> dict[str, str]:
    """The catalogue of diagnostics that each installed backend brings, by the backend's name; none
    is imported. Entries are separated by empty lines; the first line of one is `XL5999 Its title`.
    """
    from importlib.abc import ResourceLoader
    from importlib.metadata import entry_points
    from importlib.util import find_spec

    texts = {}
    for point in sorted(entry_points(group=GROUP)):
        spec = find_spec(point.module.partition(".")[0])
        if spec is None or not isinstance(spec.loader, ResourceLoader):
            continue
        for folder in spec.submodule_search_locations or ():
            with suppress(OSError):
                texts[point.name] = spec.loader.get_data(os.path.join(folder, DIAGNOSTICS)).decode()
    return texts


def find(name: str) -> Backend:
    """Imports one backend, so that a broken one does not affect others. `cuda:1` is the backend
    `cuda` for its device 1.

    Raises SourceError for an unknown name and UnsupportedError for a plug-in that cannot be
    imported.
    """
    if not isinstance(name, str):
        raise unknown(name)
    name, colon, number = name.partition(":")
    if colon and not number.isdecimal():
        raise SourceError(
            Diagnostic(
                "XL5001",
                f"'{number:.80}' is not the number of a device",
                hint=f"write {name}:0, or {name} alone",
            )
        )
    point = _declared(name) or _found(name)
    if point is None:
        raise unknown(name)
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
    """The location of a backend (`module:attribute`), from the metadata folders of installed
    distributions, in the order of the path.

    Like `importlib.metadata`, whose import takes longer than loading a cached program.
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
    """The location of a backend in distributions that are installed in other ways: in an archive,
    or by a custom finder.
    """
    from importlib.metadata import entry_points

    return next((point.value for point in entry_points(group=GROUP, name=name)), None)


def unknown(name: object) -> SourceError:
    """The error for a target that no installed backend has."""
    from xlac_sdk.support.choices import unknown_word

    return unknown_word(f"no backend '{name!s:.80}' is installed", name, installed(), "XL5001")
