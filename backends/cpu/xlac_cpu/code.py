"""Code of a program in this process: where its functions are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Code:
    """Addresses by name, of `run` and whatever else there is; they hold as long as `keep` lives."""

    keep: Any
    addresses: Mapping[str, int]
