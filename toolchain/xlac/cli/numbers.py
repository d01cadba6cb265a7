"""The numbers that options take."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """Floats of a range. NaN, which is outside no range by comparison, is refused, and so are
    infinities.
    """

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number. A usage error for text that is none, or is outside the range."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


SEED = click.IntRange(0)
"""Of random numbers: NumPy takes no negative seeds."""
