"""Exports a model as ONNX, with operators of ai.onnx only, so that any runtime supports it."""

from xlac.exporters.onnx.model import proto, write

__all__ = ["proto", "write"]
