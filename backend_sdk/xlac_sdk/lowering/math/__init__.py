"""Expansions of primitives into others, written once for every target and any number of lanes."""

from xlac_sdk.lowering.math.table import EXPANSIONS, FORMS

__all__ = ["EXPANSIONS", "FORMS"]
