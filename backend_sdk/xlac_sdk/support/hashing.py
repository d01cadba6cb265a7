"""BLAKE2b without the rest of hashlib, which loads OpenSSL as well: three milliseconds, and three
megabytes of memory.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # not CPython, or one built otherwise
    from hashlib import blake2b

__all__ = ["blake2b"]
