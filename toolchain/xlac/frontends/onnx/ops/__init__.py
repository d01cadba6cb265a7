"""The operators, a file for each family. Importing this registers them all."""

from xlac.frontends.onnx.ops import activation, arithmetic

__all__ = ["activation", "arithmetic"]
