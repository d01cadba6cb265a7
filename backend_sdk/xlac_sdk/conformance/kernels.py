"""Cases for the scalar constructs of one kernel: loops, statements, expressions."""

from __future__ import annotations

from collections.abc import Iterator

from xlac_sdk.conformance import expressions, loops, statements
from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.target import Target


def cases(target: Target) -> Iterator[ConformanceCase]:
    """One case for each construct, and one for the constants of each dtype."""
    for make in (*loops.CASES, *statements.CASES, *expressions.CASES):
        yield make()
    yield from expressions.constants(target)
