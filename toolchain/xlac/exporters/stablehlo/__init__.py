"""Exports a model as StableHLO text: one function, with weights as constants and open sizes."""

from xlac.exporters.stablehlo.module import text, write

__all__ = ["text", "write"]
