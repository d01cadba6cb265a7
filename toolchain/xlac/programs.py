"""A bounded set of compiled programs: each made when it is first asked for, the least recently used dropped."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

PROGRAMS = 64  # how many a model or a jitted function keeps

Program = TypeVar("Program")


class Programs(Generic[Program]):
    """Safe from several threads: one makes a program while the others wait for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Program] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self) -> list[Program]:
        """Those that are there now."""
        with self._lock:
            return list(self._kept.values())

    def get(self, key: Hashable, make: Callable[[], Program]) -> Program:
        """The program for a key, made if it is not there yet. What `make` raises is passed on."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            else:
                self._kept[key] = make()
                while len(self._kept) > PROGRAMS:
                    self._kept.popitem(last=False)
            return self._kept[key]
