"""A shared library that is unloaded when nothing refers to it any more."""

from __future__ import annotations

import _ctypes
import ctypes
import sys
from typing import Any


class SharedLibrary(ctypes.CDLL):
    """Functions, `library["name"]`, keep it loaded. Raises OSError for a file that cannot be
    loaded, and AttributeError for an unknown function.

    Not for a library whose own threads outlive its callers: they run its code.
    """

    def function(self, name: str) -> Any:
        """A function of the library, or None."""
        try:
            return self[name]
        except AttributeError:
            return None

    def __del__(self) -> None:
        handle = self.__dict__.get("_handle")
        # at exit a daemon thread may still be in a call
        if handle and not sys.is_finalizing() and hasattr(_ctypes, "dlclose"):
            _ctypes.dlclose(handle)
