"""What backends find out while programs run, as entries of the cache: `xlac_sdk.libraries.findings`
says what for.
"""

from __future__ import annotations

from pathlib import Path

from xlac.cache.store import Cache
from xlac.settings import settings
from xlac.support.digest import digest

FILE = "found.json"
MOST = 1 << 16  # characters that are read of one


class CachedFindings:
    """Those of one backend. Where there is no cache, or it cannot be written to, everything is
    forgotten.
    """

    def __init__(self, backend: str) -> None:
        self.name = backend

    def find(self, *key: str) -> str | None:
        """What was found out under a key; None where nothing was kept."""
        cache = self._cache()
        path = None if cache is None else cache.find(self._key(key))
        if path is None:
            return None
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                return file.read(MOST)
        except OSError:
            return None

    def keep(self, text: str, about: str, *key: str) -> None:
        """Keeps what was found out under a key; `about` says of what, for `xlac cache ls`."""
        cache = self._cache()
        if cache is None:
            return
        cache.keep(self._key(key), about, self, lambda folder: _written(folder / FILE, text))

    def _key(self, key: tuple[str, ...]) -> str:
        return digest("found", self.name, *key)

    @staticmethod
    def _cache() -> Cache | None:
        now = settings()
        return None if now.cache is None else Cache(now.cache, now.cache_bytes)


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
