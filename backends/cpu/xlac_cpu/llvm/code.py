"""Code of a program in this process: where its functions are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Code(NamedTuple):
    """Addresses by name, of `run` and whatever else there is; they hold as long as `keep` lives."""

    keep: Any
    addresses: Mapping[str, int]
