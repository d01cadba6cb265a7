"""The code of a program in this process: the addresses of its functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Code(NamedTuple):
    """Addresses by name, of `run` and further functions; valid as long as `keep` lives."""

    keep: Any
    addresses: Mapping[str, int]
