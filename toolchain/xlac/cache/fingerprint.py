"""Identifies the compiler, the processor and the sources of an artefact in keys of the cache, so
that no entry of another compiler or machine is used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.util import find_spec

import numpy as np

from xlac.support.digest import digest
from xlac_sdk.backend import Backend
from xlac_sdk.target import Target


def compiler(backend: Backend) -> str:
    """Identifies the compiler: the files of its packages, and of those that the backend depends
    on.
    """
    return _compiler((type(backend).__module__.partition(".")[0], *backend.relies_on))


@cache
def _compiler(packages: tuple[str, ...]) -> str:
    facts = [f"{sys.implementation.cache_tag} {np.__version__}"]
    for package in ("xlac", "xlac_sdk", *packages):
        spec = find_spec(package)
        for root in spec.submodule_search_locations or () if spec else ():
            facts += sorted(_files(root))
    return digest("\n".join(facts))


def _files(folder: str) -> list[str]:
    """Names, sizes and times of the files of a package, without Python's bytecode caches."""
    descriptions = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                facts = entry.stat()
                descriptions.append(f"{entry.path} {facts.st_size} {facts.st_mtime_ns}")
            elif entry.name != "__pycache__":
                descriptions += _files(entry.path)
    return descriptions


def key_of(backend: Backend, target: Target, sources: Mapping[str, str]) -> str:
    """The name of an artefact in the cache: a hash of everything that decides what `build`
    gives.
    """
    versions = version_of(backend), _version("xlac-sdk"), backend.built_by()
    texts = (part for name in sorted(sources) for part in (name, sources[name]))
    return digest(backend.name, _package(backend), *versions, _facts(target), *texts)


def _facts(target: Target) -> str:
    """All facts of a target as text, with sets in order."""
    values = ((f.name, getattr(target, f.name)) for f in fields(target))
    return repr(
        [(name, sorted(map(str, v)) if isinstance(v, frozenset) else v) for name, v in values]
    )


def version_of(backend: Backend) -> str:
    """The version of the backend's distribution; "?" where it belongs to none."""
    return _version(_package(backend))


def _package(backend: Backend) -> str:
    return type(backend).__module__.partition(".")[0].replace("_", "-")


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "?"
