"""What is wrong with a file, before its layers are looked at."""

from __future__ import annotations


class MalformedKerasFile(Exception):
    """A file that is not what Keras writes. The message says where."""


class UnsafeKerasFile(MalformedKerasFile):
    """A file that reaches outside itself, or unpacks to far more than it is."""
