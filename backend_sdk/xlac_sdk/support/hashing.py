"""BLAKE2b without hashlib, which loads OpenSSL too: three milliseconds, and three megabytes of
memory.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # not CPython, or a build without this module
    from hashlib import blake2b

__all__ = ["blake2b"]
