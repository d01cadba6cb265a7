"""A model as ONNX: operators of ai.onnx only, so that any runtime can take it."""

from xlac.exporters.onnx.model import proto, write

__all__ = ["proto", "write"]
