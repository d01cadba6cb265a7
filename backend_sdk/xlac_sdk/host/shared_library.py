"""A shared library that is closed when nothing refers to it any more."""

from __future__ import annotations

import _ctypes
import ctypes
import sys
from typing import Any


class SharedLibrary(ctypes.CDLL):
    """Functions, `library["name"]`, keep it open. Raises OSError for a file that cannot be loaded,
    and AttributeError for a function that it has not.

    Not for a library whose threads outlive what called it: they run its code.
    """

    def function(self, name: str) -> Any:
        """A function of the library, or None."""
        try:
            return self[name]
        except AttributeError:
            return None

    def __del__(self) -> None:
        handle = self.__dict__.get("_handle")
        # at the end of the process a daemon thread may still be in a call
        if handle and not sys.is_finalizing() and hasattr(_ctypes, "dlclose"):
            _ctypes.dlclose(handle)
