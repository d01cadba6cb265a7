"""A program to something that runs: its code is written, built and loaded."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from xlac.cache.fingerprint import key_of
from xlac.cache.rooms import copied
from xlac.cache.store import Cache
from xlac.runtime.compiled import Compiled
from xlac.settings import settings
from xlac.support.gc_pause import paused
from xlac_sdk.backend import Backend
from xlac_sdk.programs.program import Program
from xlac_sdk.source import XlacError
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target


def built(program: Program, target: Target, backend: Backend) -> Compiled:
    """The program as a callable. What was built before is taken from the cache."""
    with paused():
        checkpoint("writing the code")
        sources = backend.emit(program, target)
    now = settings()
    cache = None if now.cache is None else Cache(now.cache, now.cache_bytes)
    key = key_of(backend, target, sources) if cache else ""
    path = cache.find(key) if cache else None
    if path is not None:
        # another process has removed it from the cache since: it is built again
        with suppress(OSError, XlacError):
            return Compiled(program, target, backend.load(Path(path), program, target), Path(path))
    with tempfile.TemporaryDirectory(prefix="xlac-", ignore_cleanup_errors=True) as folder:
        checkpoint("building the code")
        room = Path(folder)
        artifact = backend.build(sources, room)
        checkpoint("loading the code")
        code = backend.load(artifact, program, target)
        checkpoint("keeping the code")
        write = partial(copied, artifact, room)
        place = cache.keep(key, program.name, backend, write) if cache else None
    return Compiled(program, target, code, None if place is None else Path(place))
