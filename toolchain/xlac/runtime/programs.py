"""A bounded set of compiled programs, each compiled on first use; the least recently used is
dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, Lock, get_ident
from typing import Generic, TypeVar

from xlac_sdk.source import Diagnostic, SourceError

PROGRAMS = 64  # how many a model or a jitted function keeps

Program = TypeVar("Program")


class Programs(Generic[Program]):
    """Thread-safe: one thread compiles a program while threads that want the same one wait, and
    others do not.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Program] = OrderedDict()
        # the thread that compiles it, and the event that says it is done
        self._making: dict[Hashable, tuple[int, Event]] = {}
        self._lock = Lock()  # held for short operations only

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self) -> list[Program]:
        """The programs that are in the set now."""
        with self._lock:
            return list(self._kept.values())

    def find(self, key: Hashable) -> Program | None:
        """The program for a key, if it is in the set."""
        with self._lock:
            program = self._kept.get(key)
            if program is not None:
                self._kept.move_to_end(key)
            return program

    def get(self, key: Hashable, make: Callable[[], Program]) -> Program:
        """The program for a key, compiled by `make` if it is not in the set. Exceptions of `make`
        are passed on; waiting threads then try themselves.

        Raises SourceError when `make` asks for the program that it is making.
        """
        while True:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                maker = self._making.get(key)
                if maker is None:
                    done = Event()
                    self._making[key] = get_ident(), done
                    break
            if maker[0] == get_ident():
                raise SourceError(
                    Diagnostic("XL2033", "compiling this program calls the program itself")
                )
            maker[1].wait()
        try:
            program = make()
            with self._lock:
                self._kept[key] = program
                while len(self._kept) > PROGRAMS:
                    self._kept.popitem(last=False)
            return program
        finally:
            with self._lock:
                del self._making[key]
            done.set()
