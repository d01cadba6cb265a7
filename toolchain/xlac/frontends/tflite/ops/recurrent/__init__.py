"""Recurrent layers. Their states are variables, which persist between calls."""

from xlac.frontends.tflite.ops.recurrent import layers

__all__ = ["layers"]
