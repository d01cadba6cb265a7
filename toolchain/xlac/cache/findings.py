"""Results of measurements that backends make at run time, as entries of the cache (see
`xlac_sdk.libraries.findings`).
"""

from __future__ import annotations

from pathlib import Path

from xlac.cache.store import Cache
from xlac.settings import settings
from xlac.support.digest import digest

FILE = "found.json"
MOST = 1 << 16  # characters of an entry that are read at most


class CachedFindings:
    """The findings of one backend. Without a cache, or where it cannot be written, nothing is
    kept.
    """

    def __init__(self, backend: str) -> None:
        self.name = backend

    def find(self, *key: str, most: int = MOST) -> str | None:
        """The text kept under a key, of at most `most` characters; None where there is none."""
        cache = self._cache()
        path = None if cache is None else cache.find(self._key(key))
        if path is None:
            return None
        try:
            with Path(path).open(encoding="utf-8", errors="replace") as file:
                return file.read(most)
        except OSError:
            return None

    def keep(self, text: str, about: str, *key: str, anew: bool = False) -> None:
        """Keeps a text under a key, with `anew` in place of what is there; `about` is what
        `xlac cache ls` shows.
        """
        cache = self._cache()
        if cache is None:
            return
        place = self._key(key)
        cache.keep(place, about, self, lambda folder: _written(folder / FILE, text), anew=anew)

    def _key(self, key: tuple[str, ...]) -> str:
        return digest("found", self.name, *key)

    @staticmethod
    def _cache() -> Cache | None:
        now = settings()
        return None if now.cache is None else Cache(now.cache, now.cache_bytes)


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
