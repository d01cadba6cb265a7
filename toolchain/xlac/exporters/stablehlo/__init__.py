"""A model as StableHLO text: one function, its weights as constants, sizes known."""

from xlac.exporters.stablehlo.module import text, write

__all__ = ["text", "write"]
